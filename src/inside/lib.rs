//! The host inside the Python that the user has: a library that the launcher preloads into an interpreter.
//!
//! It takes the place of the interpreter's `main` and runs the same host as the executable `pyhost`, on the C API that
//! the interpreter, or its libpython, exports. The launcher names the interpreter in a variable ([`Handshake`]); in
//! every other program the library stands aside, such as `env` of a script's `#!` line. Both the variable and the
//! library's place in `LD_PRELOAD` are taken out of a hosted program's environment before anything else runs.

#![allow(unsafe_code)]

use pyhost_host::{ProcessArguments, Strings, Symbol};
use std::ffi::{CStr, c_int, c_void};
use std::sync::OnceLock;

/// What the launcher said; none in a program that it did not mean.
static HANDSHAKE: OnceLock<Handshake> = OnceLock::new();

/// The linker sorts it before all other constructors of the library, and `-z initfirst` the library before all
/// others; before glibc 2.34 libpthread has that place, and this library runs in the usual order.
#[cfg(target_env = "gnu")]
#[used]
#[unsafe(link_section = ".init_array.00001")]
static EARLY: extern "C" fn(c_int, Strings<'static>, Strings<'static>) = early;

/// Runs before the constructors of all other libraries; libc has not set `environ` yet.
extern "C" fn early(_argc: c_int, arguments: Strings<'static>, mut environment: Strings<'static>) {
    pyhost_host::bind_own_calls();
    let found = Handshake::find(&environment);
    match found.filter(|found| pyhost_host::runs_program(found.interpreter)) {
        Some(found) => {
            environment.retain(|entry| !entry.starts_with(NAME));
            // SAFETY: the environment that the kernel made, in memory of the stack, before anybody else reads it.
            unsafe { environment.take_first_of_list(b"LD_PRELOAD=") };
            #[cfg(target_env = "gnu")]
            give_mimalloc(&environment);
            let name = found.name();
            let _ = HANDSHAKE.set(found);
            pyhost_host::early(arguments, name, environment);
        }
        None => pyhost_host::stand_aside(),
    }
}

/// Stores an environment for mimalloc's constructor, which goes through all of it for each of its options: an empty one
/// if no variable is its own. libc stores the real one in a constructor of its own, after those of this library.
/// Before glibc 2.34 it has done so already, as musl.
#[cfg(target_env = "gnu")]
fn give_mimalloc(environment: &Strings<'_>) {
    use std::sync::atomic::AtomicPtr;
    // Null, which ends the array; nobody writes there.
    static EMPTY: AtomicPtr<std::ffi::c_char> = AtomicPtr::new(std::ptr::null_mut());
    // SAFETY: libc's own variable, while the process has one thread.
    unsafe {
        if libc::environ.is_null() {
            libc::environ = match environment.iter().any(pyhost_host::is_mimallocs) {
                true => environment.as_ptr().cast_mut().cast(),
                false => EMPTY.as_ptr(),
            };
        }
    }
}

type Main = extern "C" fn(c_int, Strings<'static>, Strings<'static>) -> c_int;
type Any = *const c_void;
type Start = unsafe extern "C" fn(Main, c_int, Strings<'static>, Any, Any, Any, Any) -> c_int;

static START: Symbol<Start> = Symbol::new(c"__libc_start_main");

/// libc's function that calls `main`. Every executable calls it with a `main` of its own, which is left out here.
#[unsafe(no_mangle)]
unsafe extern "C" fn __libc_start_main(
    main: Main,
    argc: c_int,
    arguments: Strings<'static>,
    init: Any,
    fini: Any,
    at_exit: Any,
    stack_end: Any,
) -> c_int {
    // musl runs all constructors from here, and gives them no arguments. It looks for the kernel's facts, such as the size of
    // a page, behind the environment, also where that has fewer entries now.
    #[cfg(target_env = "musl")]
    // SAFETY: the kernel puts a null, the environment and its facts, in pairs that end with a zero, behind the arguments;
    // nobody has read them yet.
    unsafe {
        let environment = arguments.as_ptr().cast_mut().add(argc as usize + 1);
        let behind = || environment.add(Strings::at(environment).texts().count() + 1);
        let facts = behind();
        early(
            argc,
            Strings::at(arguments.as_ptr()),
            Strings::at(environment),
        );
        let pairs = (0..).take_while(|pair| !(*facts.add(2 * pair)).is_null());
        std::ptr::copy(facts, behind(), 2 * (pairs.count() + 1));
    }
    let main = HANDSHAKE.get().map_or(main, |_| hosted_main);
    START.resolve();
    match START.get() {
        // SAFETY: the caller's arguments.
        Some(start) => unsafe { start(main, argc, arguments, init, fini, at_exit, stack_end) },
        None => std::process::abort(), // without it no program starts
    }
}

/// Parse, run, exit: in the place of the interpreter's `main`.
extern "C" fn hosted_main(_argc: c_int, arguments: Strings<'static>, _: Strings<'static>) -> c_int {
    let found = HANDSHAKE.get();
    if let (Some(found), Some(library)) = (found, own_file()) {
        pyhost_host::preload::start(library, found.interpreter);
    }
    // SAFETY: the arguments; what has read them before has copies.
    let arguments = unsafe { ProcessArguments::of_main(arguments) };
    let status = pyhost_host::main_inside(arguments, found.and_then(Handshake::name));
    // SAFETY: as a return, after which musl calls its own `exit`, past the one that the host exports.
    unsafe { libc::exit(status) }
}

/// This library's file, by the path that it was loaded from.
fn own_file() -> Option<&'static CStr> {
    // SAFETY: the call fills the structure; the loader keeps the name as long as the library is loaded.
    unsafe {
        let mut found: libc::Dl_info = std::mem::zeroed();
        let known = libc::dladdr(early as *const c_void, &mut found);
        (known != 0 && !found.dli_fname.is_null()).then(|| CStr::from_ptr(found.dli_fname))
    }
}

const NAME: &[u8] = pyhost_host::preload::HANDSHAKE.as_bytes();

/// The word of the launcher to the library, in the environment ([`pyhost_host::preload::HANDSHAKE`]): the program that the
/// library was preloaded for. Lies in the environment's strings, which are never freed.
struct Handshake {
    /// Device and inode of the interpreter.
    interpreter: (u64, u64),
    /// The name that the launcher was called by; empty in a child that runs the interpreter.
    name: &'static CStr,
}

impl Handshake {
    /// The launcher's word, if there is one.
    fn find(environment: &Strings<'static>) -> Option<Self> {
        let mut entries = environment.texts().map(CStr::to_bytes_with_nul);
        let text = entries.find_map(|entry| entry.strip_prefix(NAME))?;
        let mut parts = text.splitn(3, |&byte| byte == b':');
        let mut number = || std::str::from_utf8(parts.next()?).ok()?.parse().ok();
        let interpreter = (number()?, number()?);
        Some(Handshake {
            interpreter,
            name: CStr::from_bytes_with_nul(parts.next()?).ok()?,
        })
    }

    /// The name that the launcher was called by, if it started this process.
    fn name(&self) -> Option<&'static CStr> {
        Some(self.name).filter(|name| !name.is_empty())
    }
}
