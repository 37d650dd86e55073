//! The `tidegate` program.

fn main() -> std::process::ExitCode {
    tidegate::service::main()
}
