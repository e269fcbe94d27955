//! Variables of a build and the one line that ends it, for the build scripts of `src/cpython` and `src/host`.

/// A variable of the build that is set and not empty.
pub fn baked(variable: &str) -> Option<String> {
    println!("cargo::rerun-if-env-changed={variable}");
    let value = std::env::var_os(variable)?;
    let value = value.to_string_lossy().into_owned();
    (!value.is_empty()).then_some(value)
}

/// Ends the build with one line about a variable.
pub fn refuse(variable: &str, value: &str, expected: &str) -> ! {
    fail(format_args!(
        "{variable}: bad value '{value}'; expected {expected}"
    ))
}

/// Ends the build with one line.
pub fn fail(line: impl std::fmt::Display) -> ! {
    println!("cargo::error={line}");
    std::process::exit(1)
}
