//! Python's objects as safe types: the GIL as a token, a reference with an owner, an error as a result.
//!
//! PyO3's own `Python` and `Bound` are not used. Most of their constructors (`PyString::new`, `PyDict::new`, ints)
//! end the process if CPython has no memory for the object, which is what caps and `--fail` bring about; here it
//! is an `Err`, as in C. These types keep nothing in threads or statics either, so they work before PyO3's
//! initialisation, in sub-interpreters, in forked children and while Python finalises.
//!
//! [`Gil`] is the proof that CPython may be called, and an [`Object`] contains that proof. All safety in this file
//! rests on three obligations:
//!
//! - **attached**: a `Gil` is only made in a thread that is attached to an interpreter for the token's lifetime.
//!   Nothing here can be sent to another thread.
//! - **live**: an `&Object` points at an object that lives as long as the borrow; an [`Owned`] holds one reference.
//! - **checked**: functions of CPython that are called with an object of the wrong type raise an error. If
//!   they do not, the type is checked here first.

#![allow(unsafe_code)]

use pyo3::ffi::{self, PyObject};
use std::ffi::{CStr, c_int, c_uint, c_void};
use std::ptr::{NonNull, null, null_mut};
use std::{cell::UnsafeCell, marker::PhantomData, ops::Deref, time::Duration};

/// The calling thread is attached to an interpreter: it holds the GIL, if there is one.
#[derive(Clone, Copy)]
pub struct Gil<'a>(PhantomData<(&'a (), *mut ())>);

/// An object, behind a reference. It lives as long as the reference, and its thread is attached for `'a`. The cell
/// tells the compiler that CPython changes what is there.
#[repr(C)]
pub struct Object<'a>(UnsafeCell<[u8; 0]>, PhantomData<Gil<'a>>);

/// A reference that is released when it is dropped.
pub struct Owned<'a>(NonNull<PyObject>, Gil<'a>);

/// A reference that is held for ever.
pub struct Kept(NonNull<PyObject>);
// SAFETY: the object is only reached by `get`, with the GIL.
unsafe impl Send for Kept {}
// SAFETY: as above.
unsafe impl Sync for Kept {}

/// An exception is set in the calling thread.
#[derive(Clone, Copy)]
pub struct Raised<'a>(Gil<'a>);

/// The result of a call that can raise; most make an object.
pub type Returned<'a, T = Owned<'a>> = Result<T, Raised<'a>>;

/// The type of an error or warning of the host's.
#[derive(Clone, Copy)]
pub enum Kind {
    Attribute,
    Memory,
    ResourceWarning,
    Runtime,
    Type,
    Value,
}

/// Calls a function of CPython.
macro_rules! python {
    ($function:ident($($argument:expr),* $(,)?)) => {
        // SAFETY: the module's three obligations; texts end in a zero byte.
        unsafe { ffi::$function($($argument),*) }
    };
}

/// Functions that make an object by one of CPython's, with what C takes of each argument.
macro_rules! makers {
    ($($(#[$doc:meta])* $name:ident($($argument:ident: $kind:ty => $c:expr)? $(; $more:expr)?) $function:ident;)*) => {$(
        $(#[$doc])*
        pub fn $name(self $(, $argument: $kind)?) -> Returned<'a> {
            self.take(python!($function($($c)? $($more)?)))
        }
    )*};
}

/// Methods that call a function of CPython with the object and what C takes of each argument. The result is that of a `check`, the
/// `answer` to a question that may raise an error, an `object`, or nothing but that it is `done`.
macro_rules! methods {
    ($($(#[$doc:meta])* $name:ident($($argument:ident: $kind:ty => $c:expr),* $(; $more:expr)?) $result:ident $function:ident;)*) => {$(
        $(#[$doc])*
        pub fn $name(&self $(, $argument: $kind)*) -> methods!($result) {
            let result = python!($function(self.pointer() $(, $c)* $(, $more)?));
            methods!($result self.gil(), result)
        }
    )*};
    (check) => { bool };
    (check $gil:expr, $result:ident) => { $result != 0 };
    (answer) => { Returned<'a, bool> };
    (answer $gil:expr, $result:ident) => { $gil.done($result).map(|()| $result != 0) };
    (object) => { Returned<'a> };
    (object $gil:expr, $result:ident) => { $gil.take($result) };
    (done) => { Returned<'a, ()> };
    (done $gil:expr, $result:ident) => { $gil.done($result) };
}

/// A static object of CPython's, by its macro or static.
macro_rules! constant {
    ($value:expr) => {
        // SAFETY: reads a pointer to a static object, which is set when Python is initialised.
        unsafe { $value }
    };
}

/// The object at an address, which lives for `'b`: see `live` above.
fn refer<'a: 'b, 'b>(_gil: Gil<'a>, pointer: NonNull<PyObject>) -> &'b Object<'a> {
    // SAFETY: live; an `Object` has no bytes of its own.
    unsafe { pointer.cast::<Object>().as_ref() }
}

impl<'a> Gil<'a> {
    /// # Safety
    /// The calling thread is attached to an interpreter for the whole of `'a`. A function that CPython calls
    /// with the GIL held makes its token at its start.
    pub unsafe fn assume() -> Self {
        Gil(PhantomData)
    }

    /// Takes over a new reference; an error if `pointer` is null, since an exception is set then.
    ///
    /// # Safety
    /// `pointer` is null or a reference that the caller owns and gives up.
    pub unsafe fn owned(self, pointer: *mut PyObject) -> Returned<'a> {
        self.take(pointer)
    }

    /// The object that `pointer` borrows; None for null.
    ///
    /// # Safety
    /// `pointer` is null, or live for `'a`.
    pub unsafe fn borrowed(self, pointer: *mut PyObject) -> Option<&'a Object<'a>> {
        NonNull::new(pointer).map(|pointer| refer(self, pointer))
    }

    fn take(self, pointer: *mut PyObject) -> Returned<'a> {
        let pointer = NonNull::new(pointer).ok_or(Raised(self))?;
        Ok(Owned(pointer, self))
    }

    /// A reference of its own to what a function returned as a borrowed one.
    fn share(self, pointer: *mut PyObject) -> Option<Owned<'a>> {
        python!(Py_XINCREF(pointer));
        self.take(pointer).ok()
    }

    /// The result of a function that returns -1 when it raised an error.
    fn done(self, status: c_int) -> Returned<'a, ()> {
        match status {
            -1 => Err(Raised(self)),
            _ => Ok(()),
        }
    }

    /// `None`.
    pub fn none(self) -> Owned<'a> {
        let none = NonNull::new(constant!(ffi::Py_None())).expect("None is an object");
        python!(Py_INCREF(none.as_ptr()));
        Owned(none, self)
    }

    /// What was made, or `None` if nothing was to be.
    pub fn maybe(self, made: Option<Returned<'a>>) -> Returned<'a> {
        made.unwrap_or_else(|| Ok(self.none()))
    }

    /// A `str`.
    pub fn text(self, text: &str) -> Returned<'a> {
        let length = text.len() as isize;
        let letters = text.as_ptr().cast();
        self.take(python!(PyUnicode_FromStringAndSize(letters, length)))
    }

    makers! {
        int(value: i64 => value) PyLong_FromLongLong;
        /// An `int`.
        unsigned(value: u64 => value) PyLong_FromUnsignedLongLong;
        float(value: f64 => value) PyFloat_FromDouble;
        bool(value: bool => value.into()) PyBool_FromLong;
        /// An empty `dict`.
        dictionary() PyDict_New;
        /// An empty `list`.
        list(; 0) PyList_New;
        /// An empty context of `contextvars`.
        new_context() PyContext_New;
        /// A module, imported if it is not there yet.
        import(name: &CStr => name.as_ptr()) PyImport_ImportModule;
    }

    pub fn tuple<const N: usize>(self, items: [Owned<'a>; N]) -> Returned<'a> {
        self.tuple_of(N, items.into_iter().map(Ok))
    }

    /// A `tuple` of the first `length` items.
    pub fn tuple_of(
        self,
        length: usize,
        mut items: impl Iterator<Item = Returned<'a>>,
    ) -> Returned<'a> {
        let tuple = self.take(python!(PyTuple_New(length as isize)))?;
        for index in 0..length {
            let item = items.next().unwrap_or_else(|| Ok(self.none()))?;
            let (item, index) = (item.into_pointer(), index as isize);
            self.done(python!(PyTuple_SetItem(tuple.pointer(), index, item)))?;
        }
        Ok(tuple)
    }

    /// A module of `sys.modules`.
    pub fn loaded(self, name: &CStr) -> Option<Owned<'a>> {
        self.share(python!(PyImport_GetModuleDict()))?.item(name)
    }

    pub fn of_sys(self, name: &CStr) -> Option<Owned<'a>> {
        self.share(python!(PySys_GetObject(name.as_ptr())))
    }

    /// The functions that are built in, of the running code.
    pub fn builtins(self) -> Returned<'a> {
        self.share(python!(PyEval_GetBuiltins()))
            .ok_or(Raised(self))
    }

    /// A capsule around a pointer.
    pub fn new_capsule(self, content: NonNull<c_void>, name: &'static CStr) -> Returned<'a> {
        let (content, name) = (content.as_ptr(), name.as_ptr());
        self.take(python!(PyCapsule_New(content, name, None)))
    }

    /// The frames of an allocation that tracemalloc has traced, innermost first; `None` of Python's if it knows nothing.
    pub fn traceback_of(self, domain: c_uint, address: usize) -> Returned<'a> {
        unsafe extern "C" {
            /// A new reference (`Python/tracemalloc.c`; exported by every version from 3.6 on).
            fn _PyTraceMalloc_GetTraceback(domain: c_uint, address: usize) -> *mut PyObject;
        }
        // SAFETY: attached; the address is looked up only.
        self.take(unsafe { _PyTraceMalloc_GetTraceback(domain, address) })
    }

    /// Runs a source; `file` is its name in tracebacks.
    pub fn execute(self, source: &CStr, file: &CStr, globals: &Object<'a>) -> Returned<'a, ()> {
        let is_dictionary = python!(PyDict_Check(globals.pointer())) != 0;
        self.ensure(is_dictionary, Kind::Type, "execute: expected a dictionary")?;
        let file_input = ffi::Py_file_input;
        let (source, file) = (source.as_ptr(), file.as_ptr());
        let code = self.take(python!(Py_CompileString(source, file, file_input)))?;
        let globals = globals.pointer();
        self.take(python!(PyEval_EvalCode(code.pointer(), globals, globals)))?;
        Ok(())
    }

    /// Raises an error with a text of one line.
    pub fn raise(self, kind: Kind, text: &str) -> Raised<'a> {
        // Without memory for the text the error is MemoryError.
        if let Ok(text) = self.text(text) {
            python!(PyErr_SetObject(kind.object(), text.pointer()));
        }
        Raised(self)
    }

    /// Raises an error with a text of one line unless something `is_so`.
    pub fn ensure(self, is_so: bool, kind: Kind, text: &str) -> Returned<'a, ()> {
        is_so.then_some(()).ok_or_else(|| self.raise(kind, text))
    }

    /// As [`Gil::raise`], with a text that needs no memory before Python's own.
    pub fn raise_text(self, kind: Kind, text: &CStr) -> Raised<'a> {
        python!(PyErr_SetString(kind.object(), text.as_ptr()));
        Raised(self)
    }

    /// Issues a warning; an error if the script made errors of such warnings.
    pub fn warn(self, kind: Kind, text: &CStr) -> Returned<'a, ()> {
        self.done(python!(PyErr_WarnEx(kind.object(), text.as_ptr(), 1)))
    }

    /// Keeps the current exception, if one is set, apart from those of `work`.
    #[allow(deprecated)] // 3.11 has no other
    pub fn keeping_exception(self, work: impl FnOnce()) {
        let (mut kind, mut value, mut trace) = (null_mut(), null_mut(), null_mut());
        python!(PyErr_Fetch(&mut kind, &mut value, &mut trace));
        work();
        python!(PyErr_Restore(kind, value, trace));
    }

    /// Whether the thread is attached to the main interpreter.
    pub fn is_of_main_interpreter(self) -> bool {
        python!(PyInterpreterState_Get()) == python!(PyInterpreterState_Main())
    }

    /// Threads of the interpreter, but for the calling one.
    pub fn other_threads(self) -> usize {
        let own = python!(PyThreadState_Get());
        let interpreter = python!(PyThreadState_GetInterpreter(own));
        let first = python!(PyInterpreterState_ThreadHead(interpreter));
        let next = |&thread: &*mut ffi::PyThreadState| {
            let next = python!(PyThreadState_Next(thread));
            (!next.is_null()).then_some(next)
        };
        let threads = std::iter::successors(Some(first), next);
        threads.filter(|&thread| thread != own).count()
    }

    /// Sleeps while other threads may run Python code.
    pub fn sleep(self, time: Duration) {
        let own = python!(PyEval_SaveThread());
        std::thread::sleep(time);
        python!(PyEval_RestoreThread(own));
    }

    pub fn collect(self) {
        python!(PyGC_Collect());
    }

    /// Raises MemoryError; allocates nothing.
    pub fn no_memory(self) -> Raised<'a> {
        python!(PyErr_NoMemory());
        Raised(self)
    }

    /// Says that an exception is set, which a function of CPython reported.
    pub fn raised(self) -> Raised<'a> {
        Raised(self)
    }

    /// An error if an exception is set.
    pub fn pending(self) -> Returned<'a, ()> {
        match python!(PyErr_Occurred()).is_null() {
            true => Ok(()),
            false => Err(Raised(self)),
        }
    }
}

/// Whether there is an interpreter beside the main one. Any thread, also before initialisation.
pub(super) fn has_other_interpreter() -> bool {
    // New interpreters are put at the head of the list, so the main one stays there while it is alone. Both functions read a
    // pointer of the runtime, without a lock.
    python!(PyInterpreterState_Head()) != python!(PyInterpreterState_Main())
}

impl Kind {
    fn object(self) -> *mut PyObject {
        constant!(match self {
            Kind::Attribute => ffi::PyExc_AttributeError,
            Kind::Memory => ffi::PyExc_MemoryError,
            Kind::ResourceWarning => ffi::PyExc_ResourceWarning,
            Kind::Runtime => ffi::PyExc_RuntimeError,
            Kind::Type => ffi::PyExc_TypeError,
            Kind::Value => ffi::PyExc_ValueError,
        })
    }
}

impl Raised<'_> {
    /// Writes the exception to `sys.unraisablehook`, as one of a call of `function`.
    pub fn write_unraisable(self, function: &Object<'_>) {
        python!(PyErr_WriteUnraisable(function.pointer()));
    }

    pub fn clear(self) {
        python!(PyErr_Clear());
    }
}

/// The value; None, and the exception is forgotten, if there is none.
pub fn or_none<'a, T>(result: Returned<'a, T>) -> Option<T> {
    result.map_err(Raised::clear).ok()
}

impl<'a> Object<'a> {
    pub fn gil(&self) -> Gil<'a> {
        Gil(PhantomData)
    }

    /// For a call of CPython; not null.
    pub fn pointer(&self) -> *mut PyObject {
        (&raw const *self).cast_mut().cast()
    }

    /// A reference of its own.
    pub fn to_owned(&self) -> Owned<'a> {
        python!(Py_INCREF(self.pointer()));
        Owned(NonNull::from(self).cast(), self.gil())
    }

    pub fn is(&self, other: &Object<'_>) -> bool {
        std::ptr::eq(self.pointer(), other.pointer())
    }

    pub fn is_none(&self) -> bool {
        std::ptr::eq(self.pointer(), constant!(ffi::Py_None()))
    }

    methods! {
        /// Whether it is a `str`.
        is_text() check PyUnicode_Check;
        is_int() check PyLong_Check;
        is_callable() check PyCallable_Check;
        is_tuple() check PyTuple_Check;
        is_list() check PyList_Check;
        /// Whether it is true, as `if` asks.
        truth() answer PyObject_IsTrue;
        contains(item: &Object<'_> => item.pointer()) answer PySequence_Contains;
        equals(other: &Object<'_> => other.pointer(); ffi::Py_EQ) answer PyObject_RichCompareBool;
        /// Its type.
        class() object PyObject_Type;
        /// The items of an iterable, as a list.
        to_list() object PySequence_List;
        /// A dictionary's keys, as a list.
        keys() object PyDict_Keys;
        module_name() object PyModule_GetNameObject;
        attribute(name: &CStr => name.as_ptr()) object PyObject_GetAttrString;
        /// `self[key]`.
        subscript(key: &Object<'_> => key.pointer()) object PyObject_GetItem;
        set_attribute(name: &CStr => name.as_ptr(), value: &Object<'_> => value.pointer()) done PyObject_SetAttrString;
        /// Sets a dictionary's value.
        set_item(key: &Object<'_> => key.pointer(), value: &Object<'_> => value.pointer()) done PyDict_SetItem;
        /// Sets a dictionary's value.
        set(key: &CStr => key.as_ptr(), value: &Object<'_> => value.pointer()) done PyDict_SetItemString;
        /// Adds what another dictionary has and this one has not.
        merge(other: &Object<'_> => other.pointer(); 0) done PyDict_Merge;
        /// Adds to a list.
        append(item: &Object<'_> => item.pointer()) done PyList_Append;
    }

    /// The number of an `int`, or of what serves as one (`__index__`).
    pub fn number(&self) -> Returned<'a, i64> {
        let index = self.gil().take(python!(PyNumber_Index(self.pointer())))?;
        match python!(PyLong_AsSsize_t(index.pointer())) {
            -1 => self.gil().pending().map(|()| -1),
            number => Ok(number as i64),
        }
    }

    /// The number of an `int`.
    pub fn as_unsigned(&self) -> Returned<'a, u64> {
        let number = python!(PyLong_AsUnsignedLongLong(self.pointer()));
        match number {
            u64::MAX => self.gil().pending().map(|()| number),
            _ => Ok(number),
        }
    }

    /// Gives the UTF-8 of a `str` to `take`. None, without an exception, for what is no `str` or has none.
    pub fn with_text<T>(&self, take: impl FnOnce(&[u8]) -> T) -> Option<T> {
        let mut length = 0;
        let text = python!(PyUnicode_AsUTF8AndSize(self.pointer(), &mut length));
        if text.is_null() {
            Raised(self.gil()).clear();
            return None;
        }
        // SAFETY: text and length of the object, which keeps the text as long as it lives.
        Some(take(unsafe {
            std::slice::from_raw_parts(text.cast(), length as usize)
        }))
    }

    /// Calls it with arguments by place.
    pub fn call(&self, arguments: &[&Object<'a>]) -> Returned<'a> {
        let (first, count) = (arguments.as_ptr().cast(), arguments.len());
        let object = self.pointer();
        self.gil().take(python!(PyObject_Vectorcall(
            object,
            first,
            count,
            null_mut()
        )))
    }

    pub fn capsule(&self, name: Option<&CStr>) -> Returned<'a, NonNull<c_void>> {
        let name = name.map_or(null(), CStr::as_ptr);
        let content = python!(PyCapsule_GetPointer(self.pointer(), name));
        NonNull::new(content).ok_or(Raised(self.gil()))
    }

    /// Calls `work` with this context as the current one.
    pub fn run_in<T>(&self, work: impl FnOnce() -> T) -> Returned<'a, T> {
        self.gil().done(python!(PyContext_Enter(self.pointer())))?;
        let result = work();
        python!(PyContext_Exit(self.pointer()));
        Ok(result)
    }

    pub fn tuple_item(&self, index: isize) -> Returned<'a, &Object<'a>> {
        let item = python!(PyTuple_GetItem(self.pointer(), index));
        let item = NonNull::new(item).ok_or(Raised(self.gil()))?;
        Ok(refer(self.gil(), item)) // the tuple keeps it
    }

    pub fn module_dictionary(&self) -> Returned<'a> {
        let dictionary = python!(PyModule_GetDict(self.pointer()));
        self.gil().share(dictionary).ok_or(Raised(self.gil()))
    }

    /// A dictionary's value. None without an exception.
    pub fn item(&self, key: &CStr) -> Option<Owned<'a>> {
        let item = python!(PyDict_GetItemString(self.pointer(), key.as_ptr()));
        self.gil().share(item)
    }

    /// A list's item; None if it has not so many.
    pub fn at(&self, index: usize) -> Option<Owned<'a>> {
        let length = python!(PyList_Size(self.pointer()));
        let index = isize::try_from(index).ok();
        let index = index.filter(|&index| index < length)?;
        let item = python!(PyList_GetItem(self.pointer(), index));
        self.gil().share(item)
    }
}

impl<'a> Owned<'a> {
    /// Gives the reference up, for CPython to take over.
    pub fn into_pointer(self) -> *mut PyObject {
        let pointer = self.0.as_ptr();
        std::mem::forget(self);
        pointer
    }

    /// Holds the reference for ever.
    pub fn keep(self) -> Kept {
        let kept = Kept(self.0);
        std::mem::forget(self);
        kept
    }
}

impl<'a> Deref for Owned<'a> {
    type Target = Object<'a>;

    fn deref(&self) -> &Object<'a> {
        refer(self.1, self.0)
    }
}

impl Drop for Owned<'_> {
    fn drop(&mut self) {
        python!(Py_DECREF(self.0.as_ptr()));
    }
}

impl Kept {
    pub fn get<'a>(&self, gil: Gil<'a>) -> &'a Object<'a> {
        refer(gil, self.0)
    }

    /// The reference, which is held no longer.
    pub fn release(self, gil: Gil<'_>) -> Owned<'_> {
        Owned(self.0, gil)
    }
}
