//! The few DWARF expressions that unwind tables have: of the entries of the procedure linkage table, of functions that
//! align their stack, and of the return from a signal handler.

use crate::machine::{Registers, Stack};
use gimli::{Encoding, EndianSlice, Expression, Format, LittleEndian, Operation};

/// Values that an expression may have on its stack.
const DEPTH: usize = 16;
/// Steps of an expression: one without jumps has fewer.
const STEPS: usize = 64;

/// The value of an expression, which begins with `first` on its stack. None if it is broken, has operations that unwind
/// tables do not need, or depends on a register that is not known.
pub fn value(
    expression: Expression<EndianSlice<'_, LittleEndian>>,
    first: Option<u64>,
    registers: &Registers,
    stack: &mut Stack,
) -> Option<u64> {
    let encoding = Encoding {
        address_size: 8,
        format: Format::Dwarf32,
        version: 4,
    };
    let mut values = Values {
        room: [0; DEPTH],
        count: 0,
    };
    if let Some(first) = first {
        values.push(first)?;
    }
    let mut operations = expression.operations(encoding);
    for _ in 0..STEPS {
        let Some(operation) = operations.next().ok()? else {
            return values.pop();
        };
        match operation {
            Operation::Nop => {}
            Operation::UnsignedConstant { value } => values.push(value)?,
            Operation::SignedConstant { value } => values.push(value as u64)?,
            Operation::PlusConstant { value } => {
                let sum = values.pop()?.wrapping_add(value);
                values.push(sum)?;
            }
            Operation::RegisterOffset {
                register, offset, ..
            } => {
                let base = registers.get(usize::from(register.0))?;
                values.push(base.wrapping_add_signed(offset))?;
            }
            Operation::Deref {
                size: 8,
                space: false,
                ..
            } => {
                let address = values.pop()?;
                values.push(stack.word(address)?)?;
            }
            Operation::Drop => drop(values.pop()?),
            Operation::Pick { index } => {
                let place = values.count.checked_sub(1 + usize::from(index))?;
                values.push(values.room[place])?;
            }
            other => {
                let (right, left) = (values.pop()?, values.pop()?);
                values.push(of_two(&other, left, right)?)?;
            }
        }
    }
    None
}

fn of_two(
    operation: &Operation<EndianSlice<'_, LittleEndian>>,
    left: u64,
    right: u64,
) -> Option<u64> {
    let (signed, than) = (left as i64, right as i64);
    let shift = u32::try_from(right).ok();
    Some(match operation {
        Operation::Plus => left.wrapping_add(right),
        Operation::Minus => left.wrapping_sub(right),
        Operation::Mul => left.wrapping_mul(right),
        Operation::And => left & right,
        Operation::Or => left | right,
        Operation::Xor => left ^ right,
        Operation::Shl => left.checked_shl(shift?).unwrap_or(0),
        Operation::Shr => left.checked_shr(shift?).unwrap_or(0),
        Operation::Eq => u64::from(left == right),
        Operation::Ne => u64::from(left != right),
        Operation::Ge => u64::from(signed >= than),
        Operation::Gt => u64::from(signed > than),
        Operation::Le => u64::from(signed <= than),
        Operation::Lt => u64::from(signed < than),
        _ => return None,
    })
}

struct Values {
    room: [u64; DEPTH],
    count: usize,
}

impl Values {
    fn push(&mut self, value: u64) -> Option<()> {
        *self.room.get_mut(self.count)? = value;
        self.count += 1;
        Some(())
    }

    fn pop(&mut self) -> Option<u64> {
        self.count = self.count.checked_sub(1)?;
        Some(self.room[self.count])
    }
}
