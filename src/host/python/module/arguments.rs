//! Arguments that several functions of the module take.

use crate::cpython::objects::{Kind, Object, Returned, or_none};
use crate::ledger::{Account, Scope};
use crate::{bytes, limit::caps::OWNED};
use pyhost_os::named::Named;

/// The account with blocks that an `account` argument names. ValueError for another, of which `or` tells what else is one.
pub fn account<'a>(function: &str, or: &str, name: &Object<'a>) -> Returned<'a, Account> {
    let named = name.with_text(|name| Account::of_name(str::from_utf8(name).ok()?));
    let named = named.flatten();
    let named = named.filter(|it| Account::WITH_BLOCKS.contains(it));
    named.ok_or_else(|| {
        let is = name
            .is_text()
            .then(|| format!(", but is '{}'", shown(name)));
        let text = format!(
            "{function}: account must be {or}one of 'raw', 'mem', 'obj', 'numpy', 'native'{}",
            is.unwrap_or_default()
        );
        name.gil().raise(Kind::Value, &text)
    })
}

/// The scope that an `account` argument of a cap names, and whether maps of libraries count: all but 'owned' are as for
/// [`scope`].
pub fn cap_scope<'a>(function: &str, account: Option<&Object<'a>>) -> Returned<'a, (Scope, bool)> {
    let is_owned = account.and_then(|account| account.with_text(|text| text == OWNED.as_bytes()));
    match is_owned {
        Some(true) => Ok((Scope::Total, false)),
        _ => Ok((scope(function, account)?, true)),
    }
}

/// The scope that an `account` argument names: the total if it is left out or None. ValueError for another.
pub fn scope<'a>(function: &str, account: Option<&Object<'a>>) -> Returned<'a, Scope> {
    let Some(account) = account.filter(|account| !account.is_none()) else {
        return Ok(Scope::Total);
    };
    let named = account.with_text(|text| str::from_utf8(text).ok().and_then(Scope::named));
    named.flatten().ok_or_else(|| {
        let text = format!(
            "{function}: account must be None or one of 'raw', 'mem', 'obj', 'arena', 'numpy', \
             'native', 'mapped', 'total'"
        );
        account.gil().raise(Kind::Value, &text)
    })
}

/// The bytes of a `size` argument: a positive whole number, or a text such as '64M'. TypeError or ValueError for
/// another.
pub fn size<'a>(function: &str, size: &Object<'a>) -> Returned<'a, u64> {
    let bytes = if size.is_text() {
        parsed(size)
    } else if size.is_int() {
        or_none(size.number()).and_then(|bytes| u64::try_from(bytes).ok())
    } else {
        let text = format!("{function}: size must be an int or a str such as '64M'");
        return Err(size.gil().raise(Kind::Type, &text));
    };
    bytes.filter(|&bytes| bytes > 0).ok_or_else(|| {
        let text =
            format!("{function}: size must be a positive number of bytes, or a str such as '64M'");
        size.gil().raise(Kind::Value, &text)
    })
}

/// The bytes that a text such as '64M' means; None for another object.
pub fn parsed(text: &Object<'_>) -> Option<u64> {
    let bytes = text.with_text(|text| str::from_utf8(text).ok().and_then(bytes::parse));
    bytes.flatten()
}

/// A text as an error's message shows it: the beginning of one that would need much memory.
pub fn shown(text: &Object<'_>) -> String {
    const MOST: usize = 200;
    let shown =
        text.with_text(|text| String::from_utf8_lossy(&text[..text.len().min(MOST)]).into_owned());
    shown.unwrap_or_default()
}
