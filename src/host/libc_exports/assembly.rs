//! Pieces of assembly for exported functions that only jump on: to libc's own, whose address is `{real}`, or to `{missing}` if it
//! was not found. On arm [`words`] follows the last jump.

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "arm")))]
compile_error!("exported functions are written for x86-64, aarch64 and arm");

macro_rules! begin {
    ($name:literal) => {
        concat!(
            ".pushsection .text.",
            $name,
            ", \"ax\"\n.p2align 2\n.globl ",
            $name,
            "\n.type ",
            $name,
            ",%function\n",
            if_arm!(".arm\n"),
            $name,
            ":"
        )
    };
}

macro_rules! end {
    ($name:literal) => {
        concat!(".size ", $name, ", .-", $name, "\n.popsection")
    };
}

#[cfg(target_arch = "arm")]
macro_rules! if_arm {
    ($text:literal) => {
        $text
    };
}
#[cfg(not(target_arch = "arm"))]
macro_rules! if_arm {
    ($text:literal) => {
        ""
    };
}

/// Defines a macro whose text is assembly, by processor.
macro_rules! by_processor {
    ($name:ident: x86_64 $x86_64:literal, aarch64 $aarch64:literal, arm $arm:literal) => {
        #[cfg(target_arch = "x86_64")]
        macro_rules! $name(() => { $x86_64 });
        #[cfg(target_arch = "aarch64")]
        macro_rules! $name(() => { $aarch64 });
        #[cfg(target_arch = "arm")]
        macro_rules! $name(() => { $arm });
        #[allow(unused_imports, reason = "of one file alone")]
        pub(crate) use $name;
    };
}

// Adds one to the counter at `{forks}`, and leaves the arguments as they are.
by_processor! { count:
    x86_64
        "mov rax, qword ptr [rip + {forks}]
        lock inc qword ptr [rax]",
    aarch64
        "adrp x16, {forks}
        ldr x16, [x16, :lo12:{forks}]
        1: ldxr x17, [x16]
        add x17, x17, #1
        stxr w15, x17, [x16]
        cbnz w15, 1b",
    arm
        "push {{r0, r1, r2, r3}}
        ldr r12, 15f
        11: add r12, pc, r12
        ldr r12, [r12]
        1: ldrexd r0, r1, [r12]
        adds r0, r0, #1
        adc r1, r1, #0
        strexd r2, r0, r1, [r12]
        cmp r2, #0
        bne 1b
        pop {{r0, r1, r2, r3}}"
}

// On aarch64 a conditional branch reaches 1 MiB.
by_processor! { go_on:
    x86_64
        "mov rax, qword ptr [rip + {real}]
        test rax, rax
        je {missing}
        jmp rax",
    aarch64
        "adrp x16, {real}
        ldr x16, [x16, :lo12:{real}]
        cbz x16, 3f
        br x16
        3: b {missing}",
    arm
        "ldr r12, 16f
        12: add r12, pc, r12
        ldr r12, [r12]
        cmp r12, #0
        beq {missing}
        bx r12
        16: .word {real} - (12b + 8)"
}

/// The constant of [`count`].
macro_rules! words {
    () => {
        if_arm!("15: .word {forks} - (11b + 8)")
    };
}

pub(crate) use {begin, by_processor, end, if_arm, words};
