//! What happens when the process forks.

use crate::calls;
use std::marker::PhantomData;

/// Proof that the calling thread is the only one of a forked child, in the handler of the fork.
///
/// Other threads of the parent are not in this process, whatever they had. The one that forked had no value of
/// [`crate::cell`], nor a reference to one: the host does not fork while it has, and a signal handler of the script's that
/// forks there may only go on to another program.
pub struct Child(PhantomData<*const ()>);

/// What is done when the process forks.
pub trait AtFork {
    /// In the thread that forks.
    fn before();
    fn in_parent();
    fn in_child(child: &Child);
}

/// Makes libc run the functions at each fork. Once.
pub fn watch<T: AtFork>() {
    extern "C" fn before<T: AtFork>() {
        T::before();
    }
    extern "C" fn in_parent<T: AtFork>() {
        T::in_parent();
    }
    extern "C" fn in_child<T: AtFork>() {
        T::in_child(&Child(PhantomData));
    }
    calls::pthread_atfork(Some(before::<T>), Some(in_parent::<T>), Some(in_child::<T>));
}
