//! What the host and `pyhostctl` have in common: the ledger, the card beside it that says whose it
//! is, the file that holds both, and the names and states of such files.
//!
//! `pyhostctl` links this and no libpython. Nothing here knows of Python, mimalloc or options.

pub mod bytes;
pub mod card;
pub mod describe;
pub mod directory;
pub mod errno;
pub mod json;
pub mod ledger;
pub mod metrics;
pub mod moment;
pub mod output;
pub mod own;
pub mod plain;
pub mod record;
pub mod template;
