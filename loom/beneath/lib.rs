//! What the modelled files stand on, in place of `std` and of `pyhost_os`: the same names, with loom's atomics and threads.
//!
//! An atomic here is as large as that of `std`, and can be made in a constant: layouts and statics of the files compile
//! as they are. It never changes itself. Its address stands for an atomic of loom's in the execution that runs. Those that
//! threads are the first to use are made before them, as zeros: what makes an atomic must happen before what uses it.

use ::std::cell::{Cell, RefCell};
use ::std::collections::HashMap;
use ::std::ops::Range;
use ::std::rc::Rc;

pub use ::std::*;
// `pyhost_os`, as far as the files need it.
pub use loom;
pub use pyhost_os::{forks, named, state};

/// How many atomics of a type the threads of a model may be the first to use.
const FRESH: usize = 18;

::std::thread_local! {
    /// Threads of the model that the main one has not joined.
    static OTHERS: Cell<usize> = const { Cell::new(0) };
    /// Memory that no thread of the model changes.
    static QUIET: RefCell<Vec<Range<usize>>> = const { RefCell::new(Vec::new()) };
}

/// Says that no thread changes the atomics of `value`: to read them is no step of the model then. A change panics.
pub fn quiet<T>(value: &T) {
    let start = (&raw const *value).addr();
    QUIET.with_borrow_mut(|quiet| quiet.push(start..start + size_of::<T>()));
}

fn is_quiet(address: usize) -> bool {
    QUIET.with_borrow(|quiet| quiet.iter().any(|range| range.contains(&address)))
}

/// Runs the model in every order of its threads' steps, with as many preemptions as LOOM_MAX_PREEMPTIONS says.
pub fn model(run: impl Fn() + Sync + Send + 'static) {
    model_to(0, run);
}

/// [`model`] with `preemptions` at least.
pub fn model_to(preemptions: usize, run: impl Fn() + Sync + Send + 'static) {
    let mut loom = loom::model::Builder::new();
    loom.preemption_bound = loom.preemption_bound.map(|bound| bound.max(preemptions));
    loom.check(move || {
        OTHERS.set(0);
        QUIET.with_borrow_mut(Vec::clear);
        sync::atomic::begin();
        system_call::begin();
        run();
    });
}

pub mod sync {
    pub use ::std::sync::*;

    pub mod atomic {
        use super::super::*;
        pub use ::std::sync::atomic::Ordering;

        /// The atomic of an address.
        enum Atomic<T, V> {
            /// While the main thread is alone, or if nobody changes it.
            Plain(V),
            Shared(Rc<T>),
        }

        struct Atomics<T, V> {
            fresh: Vec<T>,
            by_address: HashMap<usize, Atomic<T, V>>,
        }

        macro_rules! atomic {
            ($atomics:ident: $name:ident of $value:ty; $($more:tt)*) => {
                ::std::thread_local! {
                    static $atomics: RefCell<Atomics<loom::sync::atomic::$name, $value>> =
                        RefCell::new(Atomics { fresh: Vec::new(), by_address: HashMap::new() });
                }

                #[derive(Debug)]
                pub struct $name($value);

                impl $name {
                    pub const fn new(value: $value) -> Self {
                        $name(value)
                    }

                    /// Runs `plain` or `shared`, which do the same.
                    fn at<R>(
                        &self,
                        plain: impl FnOnce(&mut $value) -> R,
                        shared: impl FnOnce(&loom::sync::atomic::$name) -> R,
                    ) -> R {
                        let (address, is_alone) = ((&raw const *self).addr(), OTHERS.get() == 0);
                        let found = $atomics.with_borrow_mut(|Atomics { fresh, by_address }| {
                            let atomic = by_address.entry(address).or_insert_with(|| {
                                if is_alone || is_quiet(address) {
                                    return Atomic::Plain(self.0);
                                }
                                assert_eq!(self.0, <$value>::default(), "used by a thread first: begins as zero");
                                Atomic::Shared(Rc::new(fresh.pop().expect("more atomics: raise FRESH")))
                            });
                            if let (Atomic::Shared(shared), true) = (&*atomic, is_alone) {
                                // SAFETY: the threads that used it have been joined.
                                *atomic = Atomic::Plain(unsafe { shared.unsync_load() });
                            }
                            match atomic {
                                Atomic::Shared(shared) => Err(Rc::clone(shared)),
                                Atomic::Plain(value) => {
                                    let before = *value;
                                    let result = plain(value);
                                    assert!(is_alone || before == *value, "no thread changes it");
                                    Ok(result)
                                }
                            }
                        });
                        found.unwrap_or_else(|atomic| {
                            system_call::at_a_step();
                            shared(&atomic)
                        })
                    }

                    pub fn load(&self, order: Ordering) -> $value {
                        self.at(|it| *it, |it| it.load(order))
                    }

                    pub fn store(&self, value: $value, order: Ordering) {
                        self.at(|it| *it = value, |it| it.store(value, order))
                    }

                    pub fn swap(&self, value: $value, order: Ordering) -> $value {
                        self.at(|it| mem::replace(it, value), |it| it.swap(value, order))
                    }

                    pub fn compare_exchange(
                        &self,
                        old: $value,
                        new: $value,
                        order: Ordering,
                        failed: Ordering,
                    ) -> Result<$value, $value> {
                        let plain = |it: &mut $value| match *it == old {
                            true => Ok(mem::replace(it, new)),
                            false => Err(*it),
                        };
                        self.at(plain, |it| it.compare_exchange(old, new, order, failed))
                    }

                    pub fn compare_exchange_weak(
                        &self,
                        old: $value,
                        new: $value,
                        order: Ordering,
                        failed: Ordering,
                    ) -> Result<$value, $value> {
                        self.compare_exchange(old, new, order, failed)
                    }

                    $($more)*
                }
            };
        }

        macro_rules! integers {
            ($($atomics:ident: $name:ident of $value:ty;)*) => {
                $(atomic! { $atomics: $name of $value;
                    pub fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                        let plain = |it: &mut $value| mem::replace(it, it.wrapping_add(value));
                        self.at(plain, |it| it.fetch_add(value, order))
                    }

                    pub fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                        let plain = |it: &mut $value| mem::replace(it, it.wrapping_sub(value));
                        self.at(plain, |it| it.fetch_sub(value, order))
                    }

                    pub fn fetch_max(&self, value: $value, order: Ordering) -> $value {
                        self.at(|it| mem::replace(it, value.max(*it)), |it| it.fetch_max(value, order))
                    }

                    pub fn fetch_update(
                        &self,
                        order: Ordering,
                        fetched: Ordering,
                        mut change: impl FnMut($value) -> Option<$value>,
                    ) -> Result<$value, $value> {
                        let mut before = self.load(fetched);
                        while let Some(after) = change(before) {
                            match self.compare_exchange(before, after, order, fetched) {
                                Ok(_) => return Ok(before),
                                Err(other) => before = other,
                            }
                        }
                        Err(before)
                    }
                })*

                pub(crate) fn begin() {
                    BOOLS.with_borrow_mut(|atomics| atomics.by_address.clear());
                    $($atomics.with_borrow_mut(|atomics| atomics.by_address.clear());)*
                }

                /// Before the first thread.
                pub(crate) fn share() {
                    BOOLS.with_borrow_mut(|it| it.share(loom::sync::atomic::AtomicBool::new));
                    $($atomics.with_borrow_mut(|it| it.share(loom::sync::atomic::$name::new));)*
                }
            };
        }

        impl<T, V: Copy + Default> Atomics<T, V> {
            fn share(&mut self, make: impl Fn(V) -> T) {
                for (&address, atomic) in &mut self.by_address {
                    if let (Atomic::Plain(value), false) = (&*atomic, is_quiet(address)) {
                        *atomic = Atomic::Shared(Rc::new(make(*value)));
                    }
                }
                self.fresh = (0..FRESH).map(|_| make(V::default())).collect();
            }
        }

        atomic! { BOOLS: AtomicBool of bool; }
        integers! {
            BYTES: AtomicU8 of u8;
            U32S: AtomicU32 of u32;
            I32S: AtomicI32 of i32;
            U64S: AtomicU64 of u64;
            I64S: AtomicI64 of i64;
            WORDS: AtomicUsize of usize;
        }

        pub fn fence(order: Ordering) {
            system_call::at_a_step();
            loom::sync::atomic::fence(order);
        }

        /// Orders nothing between threads.
        pub fn compiler_fence(_: Ordering) {}
    }
}

pub mod thread {
    use super::{OTHERS, sync::atomic, system_call};
    pub use ::std::thread::*;

    pub struct Spawned<T>(loom::thread::JoinHandle<T>);

    impl<T> Spawned<T> {
        /// What the thread returned.
        pub fn join(self) -> T {
            let result = self.0.join();
            OTHERS.set(OTHERS.get() - 1);
            result.expect("the thread has panicked")
        }
    }

    /// By the main thread.
    pub fn spawn<T: 'static>(run: impl FnOnce() -> T + 'static) -> Spawned<T> {
        if OTHERS.replace(OTHERS.get() + 1) == 0 {
            atomic::share();
        }
        let number = system_call::count_thread();
        Spawned(loom::thread::spawn(move || {
            system_call::begin_thread(number);
            let result = run();
            system_call::end_thread();
            result
        }))
    }

    pub fn yield_now() {
        system_call::at_a_step();
        loom::thread::yield_now();
    }

    /// A variable of each thread, of a cell.
    pub struct LocalKey<T: 'static>(pub &'static loom::thread::LocalKey<T>);

    impl<T: Copy + 'static> LocalKey<::std::cell::Cell<T>> {
        pub fn get(&'static self) -> T {
            self.0.with(::std::cell::Cell::get)
        }

        pub fn set(&'static self, value: T) {
            self.0.with(|cell| cell.set(value));
        }
    }
}

#[macro_export]
macro_rules! thread_local {
    ($(#[$doc:meta])* static $name:ident: $type:ty = const { $value:expr };) => {
        $(#[$doc])*
        static $name: $crate::thread::LocalKey<$type> = {
            $crate::loom::thread_local! { static OF_LOOM: $type = $value; }
            $crate::thread::LocalKey(&OF_LOOM)
        };
    };
}

/// As on a processor that may reorder what an x86 does not: loom's is one.
#[macro_export]
macro_rules! cfg {
    (not(target_arch = "x86_64")) => {
        true
    };
    ($($other:tt)*) => {
        ::core::cfg!($($other)*)
    };
}

pub mod hint {
    pub use ::std::hint::*;

    pub fn spin_loop() {
        super::thread::yield_now();
    }
}

/// `membarrier(2)`, between the threads that the main one has spawned.
///
/// Loom knows no barrier that one thread runs in another. Here a thread that is asked runs a fence before its next step, and
/// the one that asks is blocked until all have, or have ended. The main thread may ask, and is not asked.
pub mod system_call {
    use ::std::cell::{Cell, RefCell};
    use ::std::rc::Rc;
    use loom::sync::atomic::Ordering::{AcqRel, Relaxed, SeqCst};
    use loom::sync::atomic::{AtomicBool, fence};

    #[derive(Default)]
    struct Thread {
        /// The thread that waits for this one.
        asker: RefCell<Option<loom::thread::Thread>>,
        has_ended: Cell<bool>,
        /// Orders the two after it.
        answered: AtomicBool,
    }

    impl Thread {
        /// Runs the barrier. The asker then sees what this thread did before it, as after the system call.
        fn answer(&self) {
            if let Some(asker) = self.asker.take() {
                fence(SeqCst);
                asker.unpark();
                // A step that depends on the asker's next one: loom also tries the orders in which that comes first.
                self.answered.load(Relaxed);
            }
        }
    }

    const THREADS_AT_MOST: usize = 3;

    ::std::thread_local! {
        /// The threads of the model; `None` if the process is not registered.
        static THREADS: RefCell<Option<Vec<Rc<Thread>>>> = const { RefCell::new(None) };
        static COUNT: Cell<usize> = const { Cell::new(0) };
    }

    loom::thread_local! {
        static OWN: RefCell<Option<Rc<Thread>>> = RefCell::new(None);
    }

    fn own() -> Option<Rc<Thread>> {
        OWN.with(|own| own.borrow().clone())
    }

    pub(crate) fn begin() {
        THREADS.set(None);
        COUNT.set(0);
    }

    pub(crate) fn count_thread() -> usize {
        COUNT.replace(COUNT.get() + 1)
    }

    pub(crate) fn begin_thread(number: usize) {
        let own = THREADS.with_borrow(|threads| threads.as_ref().map(|it| it[number].clone()));
        OWN.with(|it| *it.borrow_mut() = own);
    }

    pub(crate) fn end_thread() {
        if let Some(own) = own() {
            own.answered.swap(true, AcqRel);
            own.has_ended.set(true);
            own.answer();
        }
    }

    pub(crate) fn at_a_step() {
        if let Some(own) = own() {
            own.answer();
        }
    }

    pub fn membarrier(command: i32) -> bool {
        const REGISTER: i32 = 1 << 4;
        if command == REGISTER {
            assert_eq!(COUNT.get(), 0, "before the first thread");
            let threads = (0..THREADS_AT_MOST).map(|_| Rc::default());
            THREADS.set(Some(threads.collect()));
            return true;
        }
        fence(SeqCst);
        let own = own();
        let threads = THREADS.with_borrow(|threads| threads.clone().expect("registered"));
        for thread in &threads[..COUNT.get()] {
            if own.as_ref().is_some_and(|own| Rc::ptr_eq(own, thread)) {
                continue;
            }
            if !thread.has_ended.get() {
                thread.asker.replace(Some(loom::thread::current()));
                while thread.asker.borrow().is_some() {
                    loom::thread::park();
                }
            }
            thread.answered.swap(true, AcqRel);
        }
        fence(SeqCst);
        true
    }
}
