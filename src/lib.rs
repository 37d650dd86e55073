//! Tidegate: exactly-once stateful stream processing on Kafka.
