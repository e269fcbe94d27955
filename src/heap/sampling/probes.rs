//! Probes for tracers: `otel_memory:alloc(ptr, size, weighted_bytes)` and `otel_memory:free(ptr)`, as OpenTelemetry's eBPF
//! profiler expects them of an allocator that samples.
//!
//! A probe is a function that does nothing. A note in the ELF file (`.note.stapsdt`, as SystemTap's `sdt.h` lays it out)
//! names its address, the places of its arguments, and its *semaphore*: a count of the tracers that listen, which they or the
//! kernel raise in this process. While it is 0 the function is not called. The arguments are where the calling convention
//! puts them, which readers that ignore the note's third text rely on.

#![allow(unsafe_code)]

use crate::mimalloc::ffi;
use std::sync::atomic::Ordering::Relaxed;

/// A probe: the function, its semaphore and its note. `$arguments` has a place for each argument: its size, `@`, its register.
///
/// The note is in no segment, so no code refers to it, and the linker keeps it with the function's object file. The note is
/// relative to `_.stapsdt.base`, which the function refers to, so that the linker keeps that as well.
macro_rules! probe {
    ($name:literal, $arguments:literal, $none:literal) => {
        std::arch::global_asm!(
            concat!(
                ".pushsection .text.pyhost_probe_",
                $name,
                ",\"ax\",%progbits"
            ),
            ".balign 16",
            concat!(".globl pyhost_probe_", $name),
            concat!(".hidden pyhost_probe_", $name),
            concat!(".type pyhost_probe_", $name, ",%function"),
            concat!("pyhost_probe_", $name, ":"),
            ".cfi_startproc",
            concat!(".reloc ., ", $none, ", _.stapsdt.base"),
            "2: nop",
            "ret",
            ".cfi_endproc",
            concat!(".size pyhost_probe_", $name, ", . - pyhost_probe_", $name),
            ".popsection",
            ".pushsection .probes,\"aw\",%progbits",
            ".balign 2",
            concat!(".globl otel_memory_", $name, "_semaphore"),
            concat!(".hidden otel_memory_", $name, "_semaphore"),
            concat!(".type otel_memory_", $name, "_semaphore,%object"),
            concat!(".size otel_memory_", $name, "_semaphore, 2"),
            concat!("otel_memory_", $name, "_semaphore:"),
            ".2byte 0",
            ".popsection",
            ".pushsection .note.stapsdt,\"\",%note",
            ".balign 4",
            ".4byte 4f - 3f, 6f - 5f, 3", // lengths of the name and the content, the type
            "3: .asciz \"stapsdt\"",
            "4: .balign 4",
            "5: .8byte 2b",
            ".8byte _.stapsdt.base",
            concat!(".8byte otel_memory_", $name, "_semaphore"),
            ".asciz \"otel_memory\"",
            concat!(".asciz \"", $name, "\""),
            concat!(".asciz \"", $arguments, "\""),
            "6: .balign 4",
            ".popsection",
        );
    };
}

// Once in a program, whatever other objects have probes.
std::arch::global_asm!(
    ".pushsection .stapsdt.base,\"aG\",%progbits,.stapsdt.base,comdat",
    ".weak _.stapsdt.base",
    ".hidden _.stapsdt.base",
    "_.stapsdt.base: .space 1",
    ".size _.stapsdt.base, 1",
    ".popsection",
);

#[cfg(target_arch = "x86_64")]
probe!("alloc", "8@%rdi 8@%rsi 8@%rdx", "R_X86_64_NONE");
#[cfg(target_arch = "x86_64")]
probe!("free", "8@%rdi", "R_X86_64_NONE");

#[cfg(target_arch = "aarch64")]
probe!("alloc", "8@x0 8@x1 8@x2", "R_AARCH64_NONE");
#[cfg(target_arch = "aarch64")]
probe!("free", "8@x0", "R_AARCH64_NONE");

/// A sample was taken: of a block for a request of `size` bytes, which stands for `weight` bytes.
#[inline]
pub fn allocated(block: *mut u8, size: usize, weight: f64) {
    if ffi::otel_memory_alloc_semaphore.load(Relaxed) != 0 {
        ffi::pyhost_probe_alloc(block, size as u64, weight.round() as u64);
    }
}

/// A sample's block is freed.
#[inline]
pub fn freed(block: *mut u8) {
    if ffi::otel_memory_free_semaphore.load(Relaxed) != 0 {
        ffi::pyhost_probe_free(block);
    }
}
