//! An HTTP/1.1 message as tests read it: a client's request, or a server's response.

use std::io::BufRead;

pub struct Message {
    /// The first line.
    pub start: String,
    /// Fields with their names in lower case.
    pub fields: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Message {
    /// The next message; `None` when the connection ends before the message does.
    pub fn read(stream: &mut impl BufRead) -> Option<Message> {
        let mut line = || {
            let mut line = String::new();
            stream.read_line(&mut line).ok().filter(|read| *read > 0)?;
            Some(line.trim_end().to_owned())
        };
        let mut message = Message {
            start: line()?,
            fields: Vec::new(),
            body: Vec::new(),
        };
        loop {
            let line = line()?;
            let Some((name, value)) = line.split_once(':') else {
                break;
            };
            message
                .fields
                .push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let length = message.field("content-length").unwrap_or("0");
        message.body = vec![0; length.parse().ok()?];
        stream.read_exact(&mut message.body).ok()?;
        Some(message)
    }

    /// A field by its lower-case name.
    pub fn field(&self, name: &str) -> Option<&str> {
        let found = self.fields.iter().find(|(field, _)| field == name)?;
        Some(&found.1)
    }

    /// The status of a response.
    pub fn status(&self) -> u16 {
        self.start.split(' ').nth(1).unwrap().parse().unwrap()
    }

    pub fn text(self) -> String {
        String::from_utf8(self.body).unwrap()
    }
}
