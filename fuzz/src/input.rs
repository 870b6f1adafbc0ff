//! The fuzzer's bytes as a script: numbers and byte strings, taken one after another, without an end.

/// Reads a script; behind its end everything is 0 or empty.
#[derive(Clone, Debug)]
pub struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    /// The script in `bytes`.
    pub fn new(bytes: &'a [u8]) -> Input<'a> {
        Input { rest: bytes }
    }

    /// Whether the script is used up.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// What is left, all of it.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    /// At most `len` bytes.
    pub fn bytes(&mut self, len: usize) -> &'a [u8] {
        let (head, rest) = self.rest.split_at(len.min(self.rest.len()));
        self.rest = rest;
        head
    }

    /// A byte.
    pub fn u8(&mut self) -> u8 {
        self.bytes(1).first().copied().unwrap_or(0)
    }

    /// A bit of luck.
    pub fn bool(&mut self) -> bool {
        self.u8() & 1 != 0
    }

    /// A number below 65,536.
    pub fn u16(&mut self) -> u16 {
        u16::from(self.u8()) | u16::from(self.u8()) << 8
    }

    /// Any number.
    pub fn u64(&mut self) -> u64 {
        (0..8).fold(0, |number, at| number | u64::from(self.u8()) << (8 * at))
    }

    /// A number that is likely to be a limit of something.
    pub fn number(&mut self) -> u64 {
        match self.u8() {
            byte @ 0..=200 => u64::from(byte),
            201 => u64::MAX,
            202 => u64::MAX - 1,
            203 => i64::MAX as u64,
            204 => 1 << 63,
            205 => 1 << 32,
            206 => u64::from(u32::MAX),
            207 => 1 << 20,
            208 => (1 << 20) + 1,
            209 => 4 << 20,
            210 => (4 << 20) + 1,
            211 => 1024,
            212 => u64::from(self.u16()) & !7,
            213..=235 => u64::from(self.u16()),
            _ => self.u64(),
        }
    }

    /// A byte string with its length before it: mostly short, now and then long and made of one byte.
    pub fn string(&mut self) -> Vec<u8> {
        match self.u8() {
            len @ 0..=239 => self.bytes(usize::from(len)).to_vec(),
            240..=250 => {
                let len = usize::from(self.u16());
                self.bytes(len).to_vec()
            }
            _ => vec![self.u8(); usize::from(self.u16())],
        }
    }
}
