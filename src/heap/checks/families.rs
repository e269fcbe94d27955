//! The family of functions that made a block: malloc's, or an operator new of C++'s. Only of blocks that are checked or guarded;
//! each is to be freed by its own family.

/// What made a block, and may free it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Family {
    /// malloc, or a function of CPython's.
    Malloc,
    /// `new`.
    New,
    /// `new[]`.
    NewArray,
    /// `new` of a type with an alignment of its own.
    AlignedNew,
    /// `new[]` of such a type.
    AlignedNewArray,
}

impl Family {
    /// The family of a number that a record keeps.
    pub(crate) fn at(number: u16) -> Self {
        use Family::{AlignedNew, AlignedNewArray, Malloc, New, NewArray};
        let all = [Malloc, New, NewArray, AlignedNew, AlignedNewArray];
        all.get(usize::from(number)).copied().unwrap_or(Malloc)
    }

    /// The function that made a block that another family frees.
    pub(crate) fn other(self) -> &'static str {
        match self {
            Family::Malloc => "a function of another family",
            Family::New => "operator new, of another family",
            Family::NewArray => "operator new[], of another family",
            Family::AlignedNew => "operator new of an aligned type, of another family",
            Family::AlignedNewArray => "operator new[] of an aligned type, of another family",
        }
    }

    /// The function that frees its blocks.
    pub(crate) fn destroyer(self) -> &'static str {
        match self {
            Family::Malloc => "free()",
            Family::New => "operator delete()",
            Family::NewArray => "operator delete[]()",
            Family::AlignedNew => "operator delete() of an aligned type",
            Family::AlignedNewArray => "operator delete[]() of an aligned type",
        }
    }
}
