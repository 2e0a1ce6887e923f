//! Events as protocol buffers, written by hand: three messages with a handful of fields.
//!
//! | message      | field             | number | as               |
//! |--------------|-------------------|--------|------------------|
//! | `Event`      | `wall_time`       | 1      | 64 bits          |
//! |              | `step`            | 2      | variable length  |
//! |              | `file_version`    | 3      | bytes            |
//! |              | `summary`         | 5      | `Summary`        |
//! |              | `session_log`     | 7      | `SessionLog`     |
//! | `Summary`    | `value`, repeated | 1      | `Value`          |
//! | `Value`      | `tag`             | 1      | bytes            |
//! |              | `simple_value`    | 2      | 32 bits          |
//! | `SessionLog` | `status`          | 1      | variable length  |
//!
//! Source: TensorFlow's `event.proto` and `summary.proto`.

/// What the first event of a file says.
const FILE_VERSION: &str = "brain.Event:2";

/// `SessionLog.START`: values of this step and later ones in earlier files are void.
const SESSION_START: u64 = 1;

/// One event.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Event {
    /// The version of the format.
    Version,
    /// From `step` on, earlier files are void.
    Restart { step: u64 },
    /// Values at a step, by tag.
    Scalars { step: u64, scalars: Vec<(&'static str, f64)> },
}

impl Event {
    /// The event's bytes; it happened at `wall_time`, in seconds since 1970.
    pub(super) fn encode(&self, wall_time: f64) -> Vec<u8> {
        let mut message = Message::default();
        message.fixed64(1, wall_time.to_bits());
        match self {
            Self::Version => message.bytes(3, FILE_VERSION.as_bytes()),
            Self::Restart { step } => {
                let mut session = Message::default();
                session.varint(1, SESSION_START);
                message.varint(2, *step);
                message.bytes(7, &session.0);
            }
            Self::Scalars { step, scalars } => {
                let mut summary = Message::default();
                for &(tag, value) in scalars {
                    let mut scalar = Message::default();
                    scalar.bytes(1, tag.as_bytes());
                    scalar.fixed32(2, (value as f32).to_bits());
                    summary.bytes(1, &scalar.0);
                }
                message.varint(2, *step);
                message.bytes(5, &summary.0);
            }
        }
        message.0
    }
}

/// A protocol buffer while it is written. Each field begins with its number and how it is written.
#[derive(Debug, Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, field: u64, value: u64) {
        self.number(field << 3);
        self.number(value);
    }

    fn fixed64(&mut self, field: u64, bits: u64) {
        self.number(field << 3 | 1);
        self.0.extend(bits.to_le_bytes());
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.number(field << 3 | 2);
        self.number(bytes.len() as u64);
        self.0.extend(bytes);
    }

    fn fixed32(&mut self, field: u64, bits: u32) {
        self.number(field << 3 | 5);
        self.0.extend(bits.to_le_bytes());
    }

    /// Seven bits a byte, the lowest first; the high bit says that more follow.
    fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }
}
