//! The few DWARF expressions that unwind tables have: of the entries of the procedure linkage table, of functions that
//! align their stack, and of the return from a signal handler.

use crate::machine::{Registers, Stack};
use gimli::{
    Encoding, EndianSlice, Evaluation, EvaluationResult, EvaluationStorage, Expression, Format,
    LittleEndian, Piece, Value,
};

/// Steps of an expression: one without jumps has fewer.
const STEPS: u32 = 64;

type Bytes<'a> = EndianSlice<'a, LittleEndian>;

/// Room for the values of an expression. None calls another, and the result is one place.
struct Fixed;

impl<'a> EvaluationStorage<Bytes<'a>> for Fixed {
    type Stack = [Value; 16];
    type ExpressionStack = [(Bytes<'a>, Bytes<'a>); 1];
    type Result = [Piece<Bytes<'a>>; 1];
}

/// The value of an expression, which begins with `first` on its stack. None if it is broken, asks for what unwind tables do not
/// need, or depends on a register that is not known.
pub fn value(
    expression: Expression<Bytes<'_>>,
    first: Option<u64>,
    registers: &Registers,
    stack: &mut Stack,
) -> Option<u64> {
    let encoding = Encoding {
        address_size: 8,
        format: Format::Dwarf32,
        version: 4,
    };
    let mut evaluation = Evaluation::<_, Fixed>::new_in(expression.0, encoding);
    evaluation.set_max_iterations(STEPS);
    if let Some(first) = first {
        evaluation.set_initial_value(first);
    }
    let mut wanted = evaluation.evaluate().ok()?;
    loop {
        let next = match wanted {
            EvaluationResult::Complete => return evaluation.value_result()?.to_u64(!0).ok(),
            EvaluationResult::RequiresMemory {
                address,
                size: 8,
                space: None,
                ..
            } => evaluation.resume_with_memory(Value::Generic(stack.word(address)?)),
            EvaluationResult::RequiresRegister { register, .. } => {
                let value = registers.get(usize::from(register.0))?;
                evaluation.resume_with_register(Value::Generic(value))
            }
            _ => return None,
        };
        wanted = next.ok()?;
    }
}
