//! Load generators, the oracle and the limits that Tidegate is measured against.
