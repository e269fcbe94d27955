//! From a call to its caller, by the unwind tables.

use crate::machine::{RBP, RIP, RSP, Registers, Stack};
use crate::object::{Object, object_of};
use crate::rules::{self, Rule};
use crate::{Call, MOST, expression};
use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, EndianSlice, FrameDescriptionEntry, LittleEndian,
    Pointer, Register, RegisterRule, UnwindContext, UnwindContextStorage, UnwindExpression,
    UnwindSection, UnwindTableRow,
};
use pyhost_os::cell::Exclusive;

type Bytes<'a> = EndianSlice<'a, LittleEndian>;
type Row = UnwindTableRow<usize, Fixed>;

/// Room for the rules of the 17 registers that code saves, and for states that a table remembers.
struct Fixed;

impl UnwindContextStorage<usize> for Fixed {
    type Rules = [(Register, RegisterRule<usize>); 24];
    type Stack = [UnwindTableRow<usize, Self>; 6];
}

/// Room for reading a table: some 5 KiB, which a small stack may not have. Threads that read one at the same moment, or a
/// handler that has interrupted one, take different ones.
static ROOMS: [Exclusive<Option<UnwindContext<usize, Fixed>>>; 4] =
    [const { Exclusive::new(None) }; 4];

/// Makes the rooms. Once, before the first walk.
pub fn make_rooms() {
    for mut room in ROOMS.iter().filter_map(Exclusive::try_hold) {
        *room = Some(UnwindContext::new_in());
    }
}

/// Visits the calls of the calling thread, innermost first, until `visit` returns false, the unwind tables lead
/// no further, or [`MOST`] were visited. The innermost is of this function. False if the walk was cut: others had all the
/// room for reading tables.
#[inline(never)]
pub fn walk(mut visit: impl FnMut(&Call) -> bool) -> bool {
    let start = Registers::of_caller();
    let mut visited = 0;
    let mut end = walk_from(start, true, &mut |call| {
        visited += 1;
        visit(call)
    });
    if end == End::NoRegister {
        // The rules forget registers that few callers need: the tables have them.
        let mut again = 0;
        end = walk_from(start, false, &mut |call| {
            again += 1;
            again <= visited || visit(call)
        });
    }
    end != End::NoRoom
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// Nobody wants more calls, or the tables lead no further.
    Done,
    /// A register that is needed is not known.
    NoRegister,
    /// Others have all of [`ROOMS`].
    NoRoom,
}

/// As [`walk`], from the registers of a call below; with the rules that are known, or by the tables alone.
fn walk_from(
    mut registers: Registers,
    with_rules: bool,
    visit: &mut impl FnMut(&Call) -> bool,
) -> End {
    let mut stack = Stack::around(registers.get(RSP).unwrap_or(0));
    // The instruction behind a call may be of another function: the one before it counts. A signal handler's
    // return goes to the very instruction that was interrupted.
    let mut is_exact = true;
    for _ in 0..MOST {
        let Some(place) = registers.get(RIP).filter(|&place| place != 0) else {
            return End::Done;
        };
        let address = place as usize - usize::from(!is_exact);
        let sp = registers.get(RSP).unwrap_or(0);
        if with_rules
            && let Some(rule) = rules::known(address)
            && let Some(stack_end) = rule.stack_end(&registers)
        {
            let call = Call {
                address,
                function: address - rule.distance as usize,
                stack_end: stack_end as usize,
                is_from_signal: false,
            };
            is_exact = false;
            if !visit(&call) || stack_end <= sp || !rule.step(&mut registers, stack_end, &mut stack)
            {
                return End::Done;
            }
            continue;
        }
        let Some(object) = object_of(address) else {
            return End::Done;
        };
        let caller = match read(&object, address, &registers, &mut stack) {
            Ok(caller) => Some(caller),
            Err(End::NoRoom) => return End::NoRoom,
            Err(End::NoRegister) if with_rules => return End::NoRegister,
            Err(_) => None,
        };
        let call = Call {
            address,
            function: caller.as_ref().map_or(0, |it| it.function),
            stack_end: caller.as_ref().map_or(0, |it| it.stack_end as usize),
            is_from_signal: caller.as_ref().is_some_and(|it| it.is_from_signal),
        };
        if !visit(&call) {
            return End::Done;
        }
        let Some(caller) = caller.filter(|it| it.stack_end > sp || it.is_from_signal) else {
            return End::Done;
        };
        let Some(next) = caller.registers else {
            return End::Done;
        };
        is_exact = caller.is_from_signal;
        registers = next;
    }
    End::Done
}

/// Reads a function's table, or says why the walk ends there: [`End::Done`] if it has none.
fn read(
    object: &Object,
    address: usize,
    registers: &Registers,
    stack: &mut Stack,
) -> Result<Caller, End> {
    let free = ROOMS.iter().find_map(Exclusive::try_hold);
    let mut room = free.ok_or(End::NoRoom)?;
    let room = room.as_mut().ok_or(End::Done)?;
    caller(room, object, address, registers, stack).unwrap_or(Err(End::Done))
}

/// The registers of the caller, for a fuzz target.
#[cfg(fuzzing)]
pub fn callers(
    object: &Object,
    address: usize,
    registers: &Registers,
    stack: &mut Stack,
) -> Option<Registers> {
    read(object, address, registers, stack).ok()?.registers
}

/// A function of a walk and its caller.
struct Caller {
    function: usize,
    stack_end: u64,
    is_from_signal: bool,
    /// None at the end of the stack.
    registers: Option<Registers>,
}

/// Finds the entry of the function, and from it the caller's registers. None without an entry; [`End::NoRegister`] if the
/// end of its stack is not known.
fn caller(
    context: &mut UnwindContext<usize, Fixed>,
    object: &Object,
    address: usize,
    registers: &Registers,
    stack: &mut Stack,
) -> Option<Result<Caller, End>> {
    let header_at = object.frame_header()?;
    let slice = |bytes| EndianSlice::new(bytes, LittleEndian);
    let bases = BaseAddresses::default().set_eh_frame_hdr(header_at as u64);
    let header = object.bytes_from(header_at)?;
    let header = EhFrameHdr::new(header, LittleEndian)
        .parse(&bases, 8)
        .ok()?;
    let Pointer::Direct(frames_at) = header.eh_frame_ptr() else {
        return None;
    };
    let bases = bases.set_eh_frame(frames_at);
    let frames = object.bytes_from(usize::try_from(frames_at).ok()?)?;
    let frames = EhFrame::from(slice(frames));
    let table = header.table()?;
    let entry: FrameDescriptionEntry<Bytes<'_>> = table
        .fde_for_address(&frames, &bases, address as u64, EhFrame::cie_from_offset)
        .ok()?;
    let row = entry.unwind_info_for_address(&frames, &bases, context, address as u64);
    let row = row.ok()?;
    let read = Reading {
        frames: &frames,
        registers,
    };
    let Some(stack_end) = read.stack_end(row, stack) else {
        return Some(Err(End::NoRegister));
    };
    let function = entry.initial_address() as usize;
    if let Some(rule) = rule_of(row, address, function).filter(|_| !entry.is_signal_trampoline()) {
        rules::keep(address, rule);
    }
    Some(Ok(Caller {
        function,
        stack_end,
        is_from_signal: entry.is_signal_trampoline(),
        registers: read.callers(row, stack_end, stack),
    }))
}

/// The row as a rule; None if it is no usual one.
fn rule_of(row: &Row, address: usize, function: usize) -> Option<Rule> {
    let CfaRule::RegisterAndOffset { register, offset } = row.cfa() else {
        return None;
    };
    let base = usize::from(register.0);
    let mut rbp = 0;
    let mut has_return = false;
    for (register, rule) in row.registers() {
        match (usize::from(register.0), rule) {
            (RIP, RegisterRule::Offset(-8)) => has_return = true,
            (RBP, RegisterRule::Offset(offset)) => {
                rbp = u64::try_from(offset.checked_neg()?).ok()?
            }
            (RBP, RegisterRule::SameValue) => {}
            (RIP | RBP | RSP, _) => return None,
            // What the callers of code with a rule need is in the two registers.
            _ => {}
        }
    }
    let is_usual = has_return && matches!(base, RSP | RBP);
    is_usual.then_some(Rule {
        is_by_rbp: base == RBP,
        offset: u64::try_from(*offset).ok()?,
        rbp,
        distance: address.checked_sub(function)? as u64,
    })
}

/// The rules of a row, read for a call.
struct Reading<'a> {
    frames: &'a EhFrame<Bytes<'a>>,
    registers: &'a Registers,
}

impl Reading<'_> {
    /// The stack pointer before the call, which the rules of the registers count from.
    fn stack_end(&self, row: &Row, stack: &mut Stack) -> Option<u64> {
        match row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => {
                let base = self.registers.get(usize::from(register.0))?;
                Some(base.wrapping_add_signed(*offset))
            }
            CfaRule::Expression(expression) => self.value(expression, None, stack),
        }
    }

    fn value(
        &self,
        expression: &UnwindExpression<usize>,
        first: Option<u64>,
        stack: &mut Stack,
    ) -> Option<u64> {
        let expression = expression.get(self.frames).ok()?;
        expression::value(expression, first, self.registers, stack)
    }

    /// The caller's registers. None at the end of the stack: the outermost functions have no return address.
    fn callers(&self, row: &Row, stack_end: u64, stack: &mut Stack) -> Option<Registers> {
        let mut callers = *self.registers;
        callers.set(RSP, stack_end);
        callers.forget(RIP);
        for (register, rule) in row.registers() {
            let number = usize::from(register.0);
            let value = match rule {
                RegisterRule::SameValue => self.registers.get(number),
                RegisterRule::Offset(offset) => stack.word(stack_end.wrapping_add_signed(*offset)),
                RegisterRule::ValOffset(offset) => Some(stack_end.wrapping_add_signed(*offset)),
                RegisterRule::Register(other) => self.registers.get(usize::from(other.0)),
                RegisterRule::Expression(expression) => self
                    .value(expression, Some(stack_end), stack)
                    .and_then(|place| stack.word(place)),
                RegisterRule::ValExpression(expression) => {
                    self.value(expression, Some(stack_end), stack)
                }
                RegisterRule::Constant(value) => Some(*value),
                _ => None,
            };
            match value {
                Some(value) => callers.set(number, value),
                None => callers.forget(number),
            }
        }
        callers.get(RIP).is_some().then_some(callers)
    }
}
