//! The accounts: one a CPython domain, one for pymalloc's arenas, one for NumPy's array data,
//! one for the process's malloc, one for what libraries map past malloc. Names and order are part
//! of the report and of the ledger's stored layout.

/// An account of the ledger. The discriminant is its index in every table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Account {
    /// `PYMEM_DOMAIN_RAW`: called without the GIL, from any thread.
    Raw = 0,
    /// `PYMEM_DOMAIN_MEM`: called with the GIL.
    Mem = 1,
    /// `PYMEM_DOMAIN_OBJ`: called with the GIL.
    Obj = 2,
    /// pymalloc's arenas, and from CPython 3.11 on the chunks of frame data stacks.
    Arena = 3,
    /// NumPy's array data (NEP 49).
    Numpy = 4,
    /// The process's malloc family, outside CPython's domains.
    Native = 5,
    /// Writable private anonymous memory that libraries map themselves. Beside the total: what is
    /// mapped is often never touched, and no allocation of the heaps. See docs/observe/balance.md.
    Mapped = 6,
    /// The part of `Obj` that is inside `Arena`, so that the total counts it once. Internal.
    Pooled = 7,
}

/// The indices of accounts, for what is generic over them.
pub mod index {
    use super::Account;

    pub const RAW: usize = Account::Raw as usize;
    pub const MEM: usize = Account::Mem as usize;
    pub const OBJ: usize = Account::Obj as usize;
    pub const ARENA: usize = Account::Arena as usize;
    pub const NUMPY: usize = Account::Numpy as usize;
    pub const NATIVE: usize = Account::Native as usize;
    pub const POOLED: usize = Account::Pooled as usize;
}

/// Who makes the requests of an account: what a refusal comes to, and how far small requests may go into a cap's reserve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asker {
    /// The interpreter and extensions, under the GIL. They make an error of null, for which Python needs memory.
    Interpreter,
    /// C libraries, and Python's own calls of them. Some make no error of null.
    Libraries,
    /// pymalloc, which then does without an arena.
    Pymalloc,
    /// Code that makes arrays, and an error of null.
    Arrays,
    /// Libraries that map memory, and make no error of a refusal.
    Maps,
}

/// How many accounts the ledger keeps, the internal one included.
pub const ACCOUNTS: usize = 8;

/// The accounts that a report shows, in its order: all but the internal one.
pub const REPORTED: &[Account] = Account::ALL.split_at(ACCOUNTS - 1).0;

// By index.
pyhost_os::named!(all Account: "raw" Raw, "mem" Mem, "obj" Obj, "arena" Arena, "numpy" Numpy, "native" Native, "mapped" Mapped, "pooled" Pooled);

impl Account {
    /// The accounts whose blocks are those that their callers asked for, with sizes that a report tells apart. `Native`, which may not
    /// be counted, comes last.
    pub const WITH_BLOCKS: [Account; 5] =
        [Self::Raw, Self::Mem, Self::Obj, Self::Numpy, Self::Native];

    /// The accounts with a heap beside the main one, which is `Native`'s; those with the most blocks first.
    pub const WITH_HEAP: [Account; 5] = [Self::Obj, Self::Mem, Self::Raw, Self::Numpy, Self::Arena];

    /// The account with this index; `Native` if there is no such account.
    pub fn at(index: usize) -> Account {
        *Account::ALL.get(index).unwrap_or(&Account::Native)
    }

    pub const fn asker(self) -> Asker {
        match self {
            Account::Mem | Account::Obj => Asker::Interpreter,
            Account::Raw | Account::Native => Asker::Libraries,
            Account::Arena | Account::Pooled => Asker::Pymalloc,
            Account::Numpy => Asker::Arrays,
            Account::Mapped => Asker::Maps,
        }
    }

    /// How far, in bytes, a thread's share may move before the shared counters change.
    ///
    /// At the least: see [`super::booking`]. The windows of one thread add up to 72 KiB, which bounds how much too high a peak can
    /// be, if they are no wider. 0 makes every booking exact, at the price of the slow path each time.
    pub(super) const fn window(self) -> i64 {
        match self {
            Account::Raw | Account::Numpy | Account::Native => 16 * 1024,
            Account::Mem | Account::Obj | Account::Pooled => 8 * 1024,
            Account::Arena | Account::Mapped => 0,
        }
    }

    pub const fn is_in_total(self) -> bool {
        !matches!(self, Account::Mapped)
    }

    /// Whether the caller of this account's hooks holds the GIL, so that one thread at a time
    /// books and the peak can be exact.
    pub const fn is_under_gil(self) -> bool {
        matches!(self, Account::Mem | Account::Obj)
    }
}
