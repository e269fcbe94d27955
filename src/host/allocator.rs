//! Which allocators CPython gets: the use cases of PEP 445.

/// The choices of `--allocator`: the use cases of PEP 445.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocator {
    /// All three domains and the arenas on mimalloc.
    Mimalloc,
    /// RAW, MEM and the arenas on mimalloc; OBJ stays pymalloc, counted.
    Pymalloc,
    /// Nothing replaced; CPython's own allocators, counted.
    System,
}

pyhost_os::named!(Allocator: "mimalloc" Mimalloc, "pymalloc" Pymalloc, "system" System);
