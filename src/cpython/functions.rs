//! Safe Rust functions as Python's: methods, attributes, types and modules that are built in.
//!
//! A table's entry is made from a function or a closure without captures. Such a value has no bytes, so the function
//! that C calls is generic over its type, and needs no pointer to it. It makes the [`Gil`] token, borrows the
//! arguments, and turns an error into null. Multi-phase initialisation (PEP 489) lets every interpreter import the modules.

#![allow(unsafe_code)]

use super::layout::{END_OF_SLOTS, MODULE_SLOTS};
use super::objects::{Gil, Object, Owned, Returned};
use pyhost_os::errno::Errno;
use pyo3::ffi::{
    self, PyGetSetDef, PyMemAllocatorEx, PyMethodDef, PyObject, PyObjectArenaAllocator,
    PyType_Slot, PyType_Spec,
};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr::{NonNull, null, null_mut};
use std::{cell::UnsafeCell, marker::PhantomData, ops::Deref, sync::OnceLock};

/// The value of a function's or closure's own type.
fn the<F: Copy>() -> F {
    const { assert!(size_of::<F>() == 0, "a closure that captures nothing") };
    // SAFETY: it has no bytes, and there is one: each function of this file that names `F` was given it.
    unsafe { NonNull::dangling().read() }
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident$(<$of:ident>)?: ($($bound:tt)+);)*) => {$(
        $(#[$doc])*
        pub trait $kind$(<$of>)?: $($bound)+ + Copy {}
        impl<$($of,)? F: $($bound)+ + Copy> $kind$(<$of>)? for F {}
    )*};
}

kinds! {
    /// A method without arguments, or what an attribute's value is made by.
    Plain<T>: (for<'a> Fn(This<'a, T>) -> Returned<'a>);
    /// A method with one argument.
    One<T>: (for<'a> Fn(This<'a, T>, &'a Object<'a>) -> Returned<'a>);
    /// A method with arguments by place and by name.
    Named<T>: (for<'a> Fn(This<'a, T>, Arguments<'a>) -> Returned<'a>);
    /// Makes an instance.
    New<T>: (for<'a> Fn(Class<'a, T>, Arguments<'a>) -> Returned<'a>);
    /// Gives a length.
    Length<T>: (for<'a> Fn(This<'a, T>) -> isize);
    /// Fills a new module.
    Fill: (for<'a> Fn(&'a Object<'a>) -> Returned<'a, ()>);
    /// Runs between two instructions of Python.
    Pending: (for<'a> Fn(Gil<'a>) -> Returned<'a, ()>);
}

/// For C.
fn pointer(returned: Returned<'_>) -> *mut PyObject {
    returned.map_or(null_mut(), Owned::into_pointer)
}

/// The owner of a module's function, instead of a type's `T`.
pub struct Module;

/// An instance whose value is a `T`.
#[repr(C)]
struct Instance<T> {
    head: PyObject,
    value: T,
}

/// The object whose method or attribute is called; dereferences to its value.
///
/// A value is changed through `Cell`s: the GIL excludes other threads. On a free-threaded build the object's critical
/// section does.
pub struct This<'a, T>(NonNull<PyObject>, Gil<'a>, PhantomData<&'a T>);

impl<T> Clone for This<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for This<'_, T> {}

impl<'a, T> This<'a, T> {
    /// The object of a call.
    ///
    /// # Safety
    /// CPython calls with the GIL, and with an instance whose value is a `T`, or any object if `T` is [`Module`].
    pub unsafe fn of(object: *mut PyObject) -> Self {
        let object = NonNull::new(object).expect("CPython passes an object");
        // SAFETY: the caller's duty.
        This(object, unsafe { Gil::assume() }, PhantomData)
    }

    pub fn gil(self) -> Gil<'a> {
        self.1
    }

    pub fn object(self) -> &'a Object<'a> {
        // SAFETY: it lives during the call.
        unsafe { self.1.borrowed(self.0.as_ptr()) }.expect("not null")
    }
}

impl<T> Deref for This<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: an instance that `Class::instance` made, or no bytes are read.
        unsafe { &(*self.0.cast::<Instance<T>>().as_ptr()).value }
    }
}

/// Runs `work` with an instance locked on a free-threaded build.
fn alone<T, R>(_this: This<'_, T>, work: impl FnOnce() -> R) -> R {
    #[cfg(Py_GIL_DISABLED)]
    // SAFETY: attached, with a live object; the section stays where it is until its end.
    unsafe {
        if size_of::<T>() == 0 {
            return work();
        }
        let mut section = std::mem::MaybeUninit::<ffi::PyCriticalSection>::uninit();
        ffi::PyCriticalSection_Begin(section.as_mut_ptr(), _this.0.as_ptr());
        let result = work();
        ffi::PyCriticalSection_End(section.as_mut_ptr());
        result
    }
    #[cfg(not(Py_GIL_DISABLED))]
    work()
}

/// The arguments of a call, by place and by name.
#[derive(Clone, Copy)]
pub struct Arguments<'a> {
    gil: Gil<'a>,
    places: *mut PyObject,
    names: *mut PyObject,
}

/// How `N` arguments are given, as `PyArg_ParseTupleAndKeywords` reads it: `O` is an object, `U` a `str`; those
/// after `|` may be left out, and those after `$` are given by name.
pub struct Signature<const N: usize> {
    format: &'static CStr,
    names: [*const c_char; MOST + 1],
}

/// The most arguments of a [`Signature`].
const MOST: usize = 3;

impl<const N: usize> Signature<N> {
    /// In a `const`: does not compile if the format is for another number of arguments or for other types.
    pub const fn new(format: &'static CStr, names: [&'static CStr; N]) -> Self {
        assert!(N <= MOST);
        let bytes = format.to_bytes();
        let (mut index, mut count) = (0, 0);
        while index < bytes.len() && bytes[index] != b':' {
            match bytes[index] {
                b'O' | b'U' => count += 1,
                letter => assert!(letter == b'|' || letter == b'$'),
            }
            index += 1;
        }
        assert!(count == N);
        let mut ended = [null(); MOST + 1];
        let mut index = 0;
        while index < N {
            ended[index] = names[index].as_ptr();
            index += 1;
        }
        Signature {
            format,
            names: ended,
        }
    }
}

impl<'a> Arguments<'a> {
    /// # Safety
    /// CPython calls with the GIL, with a tuple, and a dictionary or null, that live for `'a`.
    unsafe fn new(places: *mut PyObject, names: *mut PyObject) -> Self {
        // SAFETY: the caller's duty.
        let gil = unsafe { Gil::assume() };
        Arguments { gil, places, names }
    }

    pub fn gil(self) -> Gil<'a> {
        self.gil
    }

    /// Calls another function with them.
    pub fn pass_to(self, function: &Object<'a>) -> Returned<'a> {
        // SAFETY: attached; a tuple, and a dictionary or null.
        unsafe {
            let result = ffi::PyObject_Call(function.pointer(), self.places, self.names);
            self.gil.owned(result)
        }
    }

    /// The arguments; None for those that were left out.
    pub fn parse<const N: usize>(
        self,
        signature: &Signature<N>,
    ) -> Returned<'a, [Option<&'a Object<'a>>; N]> {
        let mut found: [*mut PyObject; MOST] = [null_mut(); MOST];
        let [first, second, third] = &mut found;
        // SAFETY: the signature asks for at most so many objects; the tuple and the dictionary keep them.
        unsafe {
            let parsed = ffi::PyArg_ParseTupleAndKeywords(
                self.places,
                self.names,
                signature.format.as_ptr(),
                signature.names.as_ptr().cast_mut().cast(),
                &raw mut *first,
                &raw mut *second,
                &raw mut *third,
            );
            match parsed {
                0 => Err(self.gil.raised()),
                _ => Ok(std::array::from_fn(|index| self.gil.borrowed(found[index]))),
            }
        }
    }
}

/// A method of the type whose instances hold a `T`, or a function of a [`Module`].
#[repr(transparent)]
pub struct Method<T>(PyMethodDef, PhantomData<fn(T)>);

impl<T> Method<T> {
    const fn of(
        name: &'static CStr,
        ml_meth: ffi::PyMethodDefPointer,
        ml_flags: c_int,
        doc: &'static CStr,
    ) -> Self {
        let definition = PyMethodDef {
            ml_name: name.as_ptr(),
            ml_meth,
            ml_flags,
            ml_doc: doc.as_ptr(),
        };
        Method(definition, PhantomData)
    }

    pub const fn plain<F: Plain<T>>(name: &'static CStr, _: F, doc: &'static CStr) -> Self {
        let function = ffi::PyMethodDefPointer {
            PyCFunction: plain::<T, F, PyObject>,
        };
        Self::of(name, function, ffi::METH_NOARGS, doc)
    }

    /// With one argument.
    pub const fn one<F: One<T>>(name: &'static CStr, _: F, doc: &'static CStr) -> Self {
        let function = ffi::PyMethodDefPointer {
            PyCFunction: one::<T, F>,
        };
        Self::of(name, function, ffi::METH_O, doc)
    }

    pub const fn named<F: Named<T>>(name: &'static CStr, _: F, doc: &'static CStr) -> Self {
        let function = ffi::PyMethodDefPointer {
            PyCFunctionWithKeywords: named::<T, F>,
        };
        Self::of(name, function, ffi::METH_VARARGS | ffi::METH_KEYWORDS, doc)
    }

    /// With arguments that are not read, and for which CPython makes no tuple.
    pub const fn any<F: Plain<T>>(name: &'static CStr, _: F, doc: &'static CStr) -> Self {
        let function = ffi::PyMethodDefPointer {
            PyCFunctionFast: any::<T, F>,
        };
        Self::of(name, function, ffi::METH_FASTCALL, doc)
    }
}

/// Also an attribute's getter, whose second argument is of no use either.
unsafe extern "C" fn plain<T, F: Plain<T>, P>(this: *mut PyObject, _: *mut P) -> *mut PyObject {
    // SAFETY: called by CPython.
    let this = unsafe { This::of(this) };
    alone(this, || pointer(the::<F>()(this)))
}

unsafe extern "C" fn one<T, F: One<T>>(
    this: *mut PyObject,
    argument: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: called by CPython, with a live argument.
    let (this, argument) = unsafe { (This::of(this), This::<Module>::of(argument)) };
    alone(this, || pointer(the::<F>()(this, argument.object())))
}

unsafe extern "C" fn named<T, F: Named<T>>(
    this: *mut PyObject,
    places: *mut PyObject,
    names: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: called by CPython, whose arguments live during the call.
    let (this, arguments) = unsafe { (This::of(this), Arguments::new(places, names)) };
    alone(this, || pointer(the::<F>()(this, arguments)))
}

unsafe extern "C" fn any<T, F: Plain<T>>(
    this: *mut PyObject,
    _: *mut *mut PyObject,
    _: ffi::Py_ssize_t,
) -> *mut PyObject {
    // SAFETY: called by CPython.
    unsafe { plain::<T, F, PyObject>(this, null_mut()) }
}

/// An attribute that can be read, of the type whose instances hold a `T`.
#[repr(transparent)]
pub struct Attribute<T>(
    #[allow(dead_code, reason = "CPython reads it")] PyGetSetDef,
    PhantomData<fn(T)>,
);

impl<T> Attribute<T> {
    /// An attribute whose value `F` makes.
    pub const fn new<F: Plain<T>>(name: &'static CStr, _: F, doc: &'static CStr) -> Self {
        let definition = PyGetSetDef {
            name: name.as_ptr(),
            get: Some(plain::<T, F, c_void>),
            set: None,
            doc: doc.as_ptr(),
            closure: null_mut(),
        };
        Attribute(definition, PhantomData)
    }
}

/// The table of a type's attributes: of each the name, what makes its value, and its text.
#[macro_export]
macro_rules! attributes {
    ($of:ty: $($name:literal, $value:expr, $doc:literal;)*) => {
        $crate::functions::Table::new([$($crate::functions::Attribute::<$of>::new($name, $value, $doc)),*])
    };
}

/// The function `add`, which adds a type to a module that is being executed: its name, its text, and its parts, each by a
/// function of [`Slot`].
#[macro_export]
macro_rules! class {
    ($name:literal, $doc:expr, $($slot:ident($value:expr)),+) => {
        pub fn add<'a>(module: &$crate::objects::Object<'a>) -> $crate::objects::Returned<'a, ()> {
            let slots = [$($crate::functions::Slot::$slot($value)),+];
            $crate::functions::add_class(module, $name, $doc, slots)
        }
    };
}

/// Words of the longer kind of entry.
const END: usize = size_of::<PyGetSetDef>() / size_of::<usize>();

/// A table of methods or attributes, and the zeroes that end it. CPython keeps its address.
#[repr(C)]
pub struct Table<E, const N: usize> {
    entries: UnsafeCell<[E; N]>,
    end: [usize; END],
}
// SAFETY: constants, but for what CPython itself writes.
unsafe impl<E, const N: usize> Sync for Table<E, N> {}

impl<E, const N: usize> Table<E, N> {
    pub const fn new(entries: [E; N]) -> Self {
        Table {
            entries: UnsafeCell::new(entries),
            end: [0; END],
        }
    }
}

/// A type, called to make an instance.
pub struct Class<'a, T>(NonNull<ffi::PyTypeObject>, Gil<'a>, PhantomData<T>);

impl<'a, T> Class<'a, T> {
    pub fn gil(&self) -> Gil<'a> {
        self.1
    }

    /// An instance with this value, which is dropped with it.
    pub fn instance(&self, value: T) -> Returned<'a> {
        // SAFETY: the type has instances of this size, of which the call fills the head alone.
        unsafe {
            let object = ffi::PyType_GenericAlloc(self.0.as_ptr(), 0);
            if !object.is_null() {
                (&raw mut (*object.cast::<Instance<T>>()).value).write(value);
            }
            self.1.owned(object)
        }
    }
}

/// A part of the type whose instances hold a `T`.
#[repr(transparent)]
pub struct Slot<T>(PyType_Slot, PhantomData<fn(T)>);

impl<T> Slot<T> {
    const fn of(slot: c_int, pfunc: *mut c_void) -> Self {
        Slot(PyType_Slot { slot, pfunc }, PhantomData)
    }

    /// # Safety
    /// A function for the slot of that number, of a type whose instances hold a `T`.
    pub const unsafe fn raw(slot: c_int, function: *mut c_void) -> Self {
        Self::of(slot, function)
    }

    pub fn new<F: New<T>>(_: F) -> Self {
        Self::of(ffi::Py_tp_new, new::<T, F> as *mut c_void)
    }

    pub fn repr<F: Plain<T>>(_: F) -> Self {
        Self::of(ffi::Py_tp_repr, show::<T, F> as *mut c_void)
    }

    pub fn str<F: Plain<T>>(_: F) -> Self {
        Self::of(ffi::Py_tp_str, show::<T, F> as *mut c_void)
    }

    pub fn length<F: Length<T>>(_: F) -> Self {
        Self::of(ffi::Py_sq_length, length::<T, F> as *mut c_void)
    }

    pub fn call<F: Named<T>>(_: F) -> Self {
        Self::of(ffi::Py_tp_call, named::<T, F> as *mut c_void)
    }

    pub fn methods<const N: usize>(table: &'static Table<Method<T>, N>) -> Self {
        Self::of(ffi::Py_tp_methods, table.entries.get().cast())
    }

    pub fn attributes<const N: usize>(table: &'static Table<Attribute<T>, N>) -> Self {
        Self::of(ffi::Py_tp_getset, table.entries.get().cast())
    }
}

unsafe extern "C" fn new<T, F: New<T>>(
    class: *mut ffi::PyTypeObject,
    places: *mut PyObject,
    names: *mut PyObject,
) -> *mut PyObject {
    let class = NonNull::new(class).expect("CPython passes a type");
    // SAFETY: called by CPython with the GIL, whose arguments live during the call.
    let arguments = unsafe { Arguments::new(places, names) };
    let class = Class(class, arguments.gil(), PhantomData);
    pointer(the::<F>()(class, arguments))
}

unsafe extern "C" fn show<T, F: Plain<T>>(this: *mut PyObject) -> *mut PyObject {
    // SAFETY: called by CPython.
    unsafe { plain::<T, F, PyObject>(this, null_mut()) }
}

unsafe extern "C" fn length<T, F: Length<T>>(this: *mut PyObject) -> isize {
    // SAFETY: called by CPython.
    the::<F>()(unsafe { This::of(this) })
}

unsafe extern "C" fn dealloc<T>(this: *mut PyObject) {
    // SAFETY: called by CPython with the last reference to an instance; its type is a heap type, to which each
    // instance has a reference.
    unsafe {
        (&raw mut (*this.cast::<Instance<T>>()).value).drop_in_place();
        let class = ffi::Py_TYPE(this);
        ffi::PyObject_Free(this.cast());
        ffi::Py_DECREF(class.cast());
    }
}

/// The slots of a type, those that each has, and the one that ends them.
#[repr(C)]
struct Slots<T, const N: usize>([Slot<T>; N], [Slot<T>; 3]);

/// Adds the type `pyhost.X`, which is `qualified`, with instances that hold a `T`, to a module that is being executed.
pub fn add_class<'a, T, const N: usize>(
    module: &Object<'a>,
    qualified: &'static CStr,
    doc: &'static CStr,
    slots: [Slot<T>; N],
) -> Returned<'a, ()> {
    let doc = Slot::of(ffi::Py_tp_doc, doc.as_ptr().cast_mut().cast());
    let dealloc = Slot::of(ffi::Py_tp_dealloc, dealloc::<T> as *mut c_void);
    let slots = Slots(slots, [doc, dealloc, Slot::of(0, null_mut())]);
    let size = size_of::<Instance<T>>();
    let (gil, owner) = (module.gil(), module.pointer());
    let class = class(gil, qualified, size, owner, null_mut(), slots)?;
    module.set_attribute(&qualified[c"pyhost.".count_bytes()..], &class)
}

/// A type below another one, with instances like that one's.
pub fn subclass<'a, const N: usize>(
    base: &Object<'a>,
    qualified: &'static CStr,
    slots: [Slot<Module>; N],
) -> Returned<'a> {
    let bases = base.gil().tuple([base.to_owned()])?;
    let end = || Slot::of(0, null_mut());
    let slots = Slots(slots, [end(), end(), end()]);
    class(base.gil(), qualified, 0, null_mut(), bases.pointer(), slots)
}

fn class<'a, T, const N: usize>(
    gil: Gil<'a>,
    qualified: &'static CStr,
    size: usize,
    module: *mut PyObject,
    bases: *mut PyObject,
    mut slots: Slots<T, N>,
) -> Returned<'a> {
    let mut spec = PyType_Spec {
        name: qualified.as_ptr(),
        basicsize: size as c_int,
        itemsize: 0,
        flags: ffi::Py_TPFLAGS_DEFAULT as c_uint,
        slots: (&raw mut slots).cast(),
    };
    // SAFETY: live objects or null; the slots are a type's with such instances; CPython copies what is not static.
    unsafe { gil.owned(ffi::PyType_FromModuleAndSpec(module, &mut spec, bases)) }
}

/// The function that fills a module, and what each version wants to know of it.
pub struct Execute(#[allow(dead_code, reason = "CPython reads it")] [ffi::PyModuleDef_Slot; 4]);
// SAFETY: constants.
unsafe impl Sync for Execute {}

/// A built-in module. CPython keeps its address, and counts references in it.
pub struct Definition(UnsafeCell<ffi::PyModuleDef>);
// SAFETY: CPython alone writes to it, under its own locks.
unsafe impl Sync for Definition {}

impl Execute {
    /// `F` fills each new module.
    pub const fn new<F: Fill>(_: F) -> Self {
        Execute([
            ffi::PyModuleDef_Slot {
                slot: ffi::Py_mod_exec,
                value: execute::<F> as *mut c_void,
            },
            MODULE_SLOTS[0],
            MODULE_SLOTS[1],
            END_OF_SLOTS,
        ])
    }
}

unsafe extern "C" fn execute<F: Fill>(module: *mut PyObject) -> c_int {
    // SAFETY: called by the import system with the GIL.
    let module = unsafe { This::<Module>::of(module) };
    the::<F>()(module.object()).map_or(-1, |()| 0)
}

impl Definition {
    pub const fn new(name: &'static CStr, doc: &'static CStr, execute: &'static Execute) -> Self {
        Definition(UnsafeCell::new(ffi::PyModuleDef {
            m_base: ffi::PyModuleDef_HEAD_INIT,
            m_name: name.as_ptr(),
            m_doc: doc.as_ptr(),
            m_size: 0,
            m_methods: null_mut(),
            m_slots: (&raw const *execute).cast_mut().cast(),
            m_traverse: None,
            m_clear: None,
            m_free: None,
        }))
    }
}

/// Makes `import` find the module that `F` names. Before initialisation.
pub fn register<F: Fn() -> &'static Definition + Copy>(name: &'static CStr, _: F) {
    unsafe extern "C" fn initialize<F: Fn() -> &'static Definition + Copy>() -> *mut PyObject {
        // SAFETY: called by the import system with the GIL; the definition lives for ever.
        unsafe { ffi::PyModuleDef_Init(the::<F>()().0.get()) }
    }
    // SAFETY: before initialisation, a constant name and a function of the executable.
    unsafe { ffi::PyImport_AppendInittab(name.as_ptr(), Some(initialize::<F>)) };
}

impl<'a> Object<'a> {
    /// Adds functions to a module that is being executed.
    pub fn add_functions<const N: usize>(
        &self,
        table: &'static Table<Method<Module>, N>,
    ) -> Returned<'a, ()> {
        let table = table.entries.get().cast();
        // SAFETY: attached, with a live object; the table is static, and ends with zeroes.
        match unsafe { ffi::PyModule_AddFunctions(self.pointer(), table) } {
            0 => Ok(()),
            _ => Err(self.gil().raised()),
        }
    }
}

impl<'a> Gil<'a> {
    /// Adds functions to the module of this name in `sys.modules`. Makes the module if there is none.
    pub fn module<const N: usize>(
        self,
        name: &CStr,
        functions: &'static Table<Method<Module>, N>,
    ) -> Returned<'a> {
        // SAFETY: attached. A module that is null has raised.
        let module = unsafe { self.borrowed(ffi::PyImport_AddModule(name.as_ptr())) };
        let module = module.ok_or_else(|| self.raised())?;
        module.add_functions(functions)?;
        Ok(module.to_owned())
    }

    /// A function that is no attribute of a module.
    pub fn function<const N: usize>(
        self,
        method: &'static Table<Method<Module>, N>,
    ) -> Returned<'a> {
        const { assert!(N == 1) };
        let none = self.none();
        // SAFETY: attached; the entry is static.
        unsafe {
            let definition = method.entries.get().cast();
            let function = ffi::PyCFunction_NewEx(definition, none.pointer(), null_mut());
            self.owned(function)
        }
    }
}

/// Asks the main thread to call `F` between two instructions. Any thread, also without the GIL; returns false if too
/// many calls wait.
pub fn add_pending_call<F: Pending>(_: F) -> bool {
    extern "C" fn call<F: Pending>(_: *mut c_void) -> c_int {
        // SAFETY: called by CPython with the GIL.
        the::<F>()(unsafe { Gil::assume() }).map_or(-1, |()| 0)
    }
    // SAFETY: a function of the executable, and no argument.
    unsafe { ffi::Py_AddPendingCall(Some(call::<F>), null_mut()) == 0 }
}

/// Lets `F` refuse each later `os.fork` and `os.forkpty`, which then raises OSError with ENOMEM. Once, in the main interpreter.
pub fn watch_forks<F: Fn() -> bool + Copy>(_gil: Gil<'_>, _: F) {
    unsafe extern "C" {
        fn PySys_AddAuditHook(
            hook: unsafe extern "C" fn(*const c_char, *mut PyObject, *mut c_void) -> c_int,
            data: *mut c_void,
        ) -> c_int;
    }
    unsafe extern "C" fn on_event<F: Fn() -> bool + Copy>(
        event: *const c_char,
        _: *mut PyObject,
        _: *mut c_void,
    ) -> c_int {
        // SAFETY: called by CPython with the name of an event, with the GIL.
        unsafe {
            let event = CStr::from_ptr(event).to_bytes();
            if !matches!(event, b"os.fork" | b"os.forkpty") || !the::<F>()() {
                return 0;
            }
            Errno(libc::ENOMEM).set();
            ffi::PyErr_SetFromErrno(ffi::PyExc_OSError);
        }
        -1
    }
    // SAFETY: a function of the executable, with the GIL.
    if unsafe { PySys_AddAuditHook(on_event::<F>, null_mut()) } != 0 {
        // SAFETY: as above. Another hook refused this one.
        unsafe { ffi::PyErr_Clear() };
    }
}

/// Bytes of a function and of a traceback, without the header of the garbage collector.
pub fn sizes_of_function_and_traceback() -> [usize; 2] {
    // SAFETY: constants of static types.
    unsafe {
        [
            ffi::PyFunction_Type.tp_basicsize,
            ffi::PyTraceBack_Type.tp_basicsize,
        ]
    }
    .map(|bytes| bytes as usize)
}

/// Calls `F` whenever a `MemoryError` is freed, with whether it has passed Python code: that gives it a traceback. One that
/// CPython made of a refusal and swallowed has none. Once.
pub fn watch_memory_errors<F: Fn(bool) + Copy>(_gil: Gil<'_>, _: F) {
    static FREE: OnceLock<ffi::destructor> = OnceLock::new();
    unsafe extern "C" fn free<F: Fn(bool) + Copy>(error: *mut PyObject) {
        // SAFETY: called by Python with an exception that nobody else has.
        unsafe {
            let exception = error.cast::<ffi::PyBaseExceptionObject>();
            the::<F>()(!(*exception).traceback.is_null());
            if let Some(free) = FREE.get() {
                free(error);
            }
        }
    }
    // SAFETY: a static type, whose function is replaced by one that calls it; the GIL is held.
    unsafe {
        let kind = ffi::PyExc_MemoryError.cast::<ffi::PyTypeObject>();
        if let Some(own) = (*kind).tp_dealloc
            && FREE.set(own).is_ok()
        {
            (*kind).tp_dealloc = Some(free::<F>);
        }
    }
}

/// What functions of C's allocators take: a context, or a block or null.
pub type Pointer = *mut c_void;

/// The table of these functions of an allocator, which have no context.
pub fn allocator(
    malloc: extern "C" fn(Pointer, usize) -> Pointer,
    calloc: extern "C" fn(Pointer, usize, usize) -> Pointer,
    realloc: extern "C" fn(Pointer, Pointer, usize) -> Pointer,
    free: extern "C" fn(Pointer, Pointer),
) -> PyMemAllocatorEx {
    PyMemAllocatorEx {
        ctx: null_mut(),
        malloc: Some(malloc),
        calloc: Some(calloc),
        realloc: Some(realloc),
        free: Some(free),
    }
}

/// A table of functions that CPython allocates by, kept once for all threads.
#[derive(derive_more::Deref)]
pub struct KeptTable<T>(OnceLock<T>);
// SAFETY: function pointers, and a context that CPython itself shares between threads.
unsafe impl Sync for KeptTable<PyMemAllocatorEx> {}
// SAFETY: as above.
unsafe impl Sync for KeptTable<PyObjectArenaAllocator> {}
// SAFETY: as above.
unsafe impl<const N: usize> Sync for KeptTable<[PyMemAllocatorEx; N]> {}

impl<T> KeptTable<T> {
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Self {
        KeptTable(OnceLock::new())
    }
}

/// A built-in function that another one took the place of.
pub struct Original(OnceLock<ffi::PyCFunction>);

impl Original {
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Self {
        Original(OnceLock::new())
    }

    pub fn call<'a>(&self, this: This<'a, Module>, argument: &Object<'a>) -> Returned<'a> {
        let function = *self.0.get().expect("set before the other one is called");
        // SAFETY: attached; a function of one argument, or of none, which ignores it.
        unsafe {
            let result = function(this.object().pointer(), argument.pointer());
            this.gil().owned(result)
        }
    }
}

/// Puts a function into the place of a built-in one of the same kind, with one argument or without: its entry in
/// the table of its module is changed, so that name, text and identity stay, in every interpreter. Returns false,
/// having done nothing, if the object is no such function.
pub fn replace_builtin(function: &Object<'_>, by: Method<Module>, original: &Original) -> bool {
    // SAFETY: attached; the object is checked to be a built-in function, whose entry is a writable static of libpython.
    unsafe {
        if ffi::PyCFunction_CheckExact(function.pointer()) == 0 {
            return false;
        }
        let entry = (*function.pointer().cast::<ffi::PyCFunctionObject>()).m_ml;
        let kind = (*entry).ml_flags;
        let replaces = kind == by.0.ml_flags
            && (kind == ffi::METH_O || kind == ffi::METH_NOARGS)
            && original.0.set((*entry).ml_meth.PyCFunction).is_ok();
        if replaces {
            (*entry).ml_meth = by.0.ml_meth;
        }
        replaces
    }
}
