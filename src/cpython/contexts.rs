//! A context variable (PEP 567) that an allocator may read.

#![allow(unsafe_code)]

use super::functions::This;
use super::objects::{Gil, Object, Owned, Raised};
use pyo3::ffi::{self, PyObject};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::{ffi::CStr, marker::PhantomData, ptr::null_mut, sync::atomic::AtomicPtr};

// SAFETY: as `frames.c` defines them; the first wants a context variable.
unsafe extern "C" {
    fn pyhost_context_value(variable: *mut PyObject) -> *mut PyObject;

    #[link_name = "pyhost_is_collecting"]
    pub safe fn is_collecting() -> bool;
    /// Has `MemoryError` raised in the calling thread at its next safe point. Returns false if the thread does not have the GIL; or, unless
    /// it may be `elsewhere`, if that may be in another context by then. Also inside the allocator.
    #[link_name = "pyhost_post_error"]
    pub safe fn post_error(elsewhere: bool) -> bool;
    /// Takes an error back that [`post_error`] has posted and that was not raised yet. With the GIL, also inside the allocator.
    #[link_name = "pyhost_take_error_back"]
    pub safe fn take_error_back();
}

/// A variable of the main interpreter, whose values are instances of a class that hold a `T`.
pub struct ContextVariable<T> {
    /// Held for ever.
    variable: AtomicPtr<PyObject>,
    class: AtomicPtr<PyObject>,
    of: PhantomData<fn(T)>,
}

impl<T> ContextVariable<T> {
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Self {
        ContextVariable {
            variable: AtomicPtr::new(null_mut()),
            class: AtomicPtr::new(null_mut()),
            of: PhantomData,
        }
    }

    /// Makes the variable, if that was not done. In the main interpreter.
    pub fn begin<'a>(&self, name: &CStr, value: &Object<'a>) -> Result<(), Raised<'a>> {
        // SAFETY: attached; an instance has a type.
        unsafe {
            let class = ffi::Py_TYPE(value.pointer()).cast();
            if self.class.load(Relaxed) != class {
                ffi::Py_INCREF(class);
                self.class.store(class, Relaxed);
            }
            if self.variable.load(Relaxed).is_null() {
                let made = ffi::PyContextVar_New(name.as_ptr(), null_mut());
                let variable = value.gil().owned(made)?.into_pointer();
                self.variable.store(variable, Release);
            }
        }
        Ok(())
    }

    pub fn set<'a>(&self, value: &Object<'a>) -> Result<(), Raised<'a>> {
        // SAFETY: attached; begun.
        unsafe {
            let token = ffi::PyContextVar_Set(self.variable.load(Relaxed), value.pointer());
            value.gil().owned(token).map(drop)
        }
    }

    pub fn get<'a>(&self, gil: Gil<'a>) -> Option<Owned<'a>> {
        // SAFETY: attached.
        unsafe { gil.borrowed(self.pointer()?).map(Object::to_owned) }
    }

    fn pointer(&self) -> Option<*mut PyObject> {
        let variable = self.variable.load(Acquire);
        if variable.is_null() {
            return None;
        }
        // SAFETY: a context variable; the type of a live object is read.
        unsafe {
            let value = pyhost_context_value(variable);
            let is_one = !value.is_null() && ffi::Py_TYPE(value).cast() == self.class.load(Relaxed);
            is_one.then_some(value)
        }
    }

    /// Reads the value in the calling thread's context. None if it has none, or does not have the GIL. Any thread at any moment, also inside
    /// the allocator.
    pub fn look<R>(&self, look: impl FnOnce(&T) -> R) -> Option<R> {
        let value = self.pointer()?;
        // SAFETY: an instance of the class, which the context keeps; the thread has the GIL.
        let value = unsafe { This::<T>::of(value) };
        Some(look(&value))
    }
}
