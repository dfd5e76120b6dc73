//! [`Positions`]: where the keys of a configuration text stand.

use std::{collections::HashMap, iter::Peekable, str::Chars};

/// Place in a text; both count from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) line: usize,
    pub(super) column: usize,
}

/// Positions of the names and list elements of a text, by their paths.
#[derive(Debug, Default)]
pub(super) struct Positions(HashMap<String, Position>);

impl Positions {
    /// Notes where a path stands. A path that is given twice keeps the first place.
    pub(super) fn note(&mut self, path: String, at: Position) {
        self.0.entry(path).or_insert(at);
    }

    /// The place of the longest known part of a path; the begin of the text if none is known.
    pub(super) fn nearest<'a>(&self, segments: impl Iterator<Item = &'a str>) -> Position {
        let (mut path, mut at) = (String::new(), Position { line: 1, column: 1 });
        for part in segments {
            path = joined(&path, part);
            at = self.0.get(&path).copied().unwrap_or(at);
        }
        at
    }

    /// Positions in a text that is valid JSON5.
    pub(super) fn of_json5(text: &str) -> Self {
        let mut scan = Scan { chars: text.chars().peekable(), at: Position { line: 1, column: 1 } };
        let (mut found, mut open) = (Self::default(), Vec::<Open>::new());
        // Path of the value that comes next.
        let mut path = String::new();
        while let Some((token, at)) = scan.token() {
            let is_value = !matches!(token, Token::Mark(']' | '}' | ':' | ','));
            match open.last_mut() {
                Some(Open { path: parent, place: Expected::Name }) if is_value => {
                    let Token::Word(name) = &token else { return found };
                    path = joined(parent, name);
                    found.note(path.clone(), at);
                    continue;
                }
                Some(Open { path: parent, place: Expected::Element(number) }) if is_value => {
                    path = joined(parent, &number.to_string());
                    found.note(path.clone(), at);
                }
                _ => {}
            }
            match token {
                Token::Mark('{') => open.push(Open { path: path.clone(), place: Expected::Name }),
                Token::Mark('[') => open.push(Open { path: path.clone(), place: Expected::Element(0) }),
                Token::Mark(']' | '}') => drop(open.pop()),
                Token::Mark(mark) => {
                    if let Some(open) = open.last_mut() {
                        open.pass(mark);
                    }
                }
                Token::Word(_) => {}
            }
        }
        found
    }
}

/// Path of a part below another path.
pub(super) fn joined(path: &str, part: &str) -> String {
    if path.is_empty() { part.to_owned() } else { format!("{path}/{part}") }
}

/// Object or list that is not complete yet.
struct Open {
    path: String,
    place: Expected,
}

/// Kind of the value that comes next.
enum Expected {
    Name,
    Value,
    Element(usize),
}

impl Open {
    /// Passes a colon or a comma.
    fn pass(&mut self, mark: char) {
        self.place = match self.place {
            _ if mark == ':' => Expected::Value,
            Expected::Element(number) => Expected::Element(number + 1),
            Expected::Name | Expected::Value => Expected::Name,
        };
    }
}

enum Token {
    Mark(char),
    /// A name, a string without its quotes, or a number.
    Word(String),
}

struct Scan<'a> {
    chars: Peekable<Chars<'a>>,
    at: Position,
}

impl Scan<'_> {
    fn next(&mut self) -> Option<char> {
        let c = self.chars.next()?;
        if c == '\n' {
            self.at = Position { line: self.at.line + 1, column: 1 };
        } else {
            self.at.column += 1;
        }
        Some(c)
    }

    fn token(&mut self) -> Option<(Token, Position)> {
        loop {
            let at = self.at;
            let c = self.next()?;
            match c {
                '/' => self.skip_comment(),
                '"' | '\'' => return Some((Token::Word(self.string(c)), at)),
                '{' | '}' | '[' | ']' | ':' | ',' => return Some((Token::Mark(c), at)),
                _ if c.is_whitespace() || c == '\u{feff}' => {}
                _ => return Some((Token::Word(self.word(c)), at)),
            }
        }
    }

    fn skip_comment(&mut self) {
        if self.next() == Some('*') {
            let mut star = false;
            while let Some(c) = self.next() {
                if star && c == '/' {
                    return;
                }
                star = c == '*';
            }
        } else {
            while self.chars.peek().is_some_and(|c| *c != '\n') {
                self.next();
            }
        }
    }

    fn string(&mut self, quote: char) -> String {
        let mut text = String::new();
        while let Some(c) = self.next() {
            match c {
                '\\' => text.extend(self.next()),
                _ if c == quote => break,
                _ => text.push(c),
            }
        }
        text
    }

    fn word(&mut self, first: char) -> String {
        let mut text = String::from(first);
        let ends = |c: &char| c.is_whitespace() || "{}[]:,/\"'".contains(*c);
        while self.chars.peek().is_some_and(|c| !ends(c)) {
            text.extend(self.next());
        }
        text
    }
}
