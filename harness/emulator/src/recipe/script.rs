//! The grammar of model scripts (`.alls`): `command(argument, key=value)`, one a line, and `name = [layers]`.
//!
//! ```text
//! statement = [ names "=" ] ( call | value ) end-of-line
//! names     = word { "," word }
//! call      = word "(" [ argument { "," argument } ] ")"
//! argument  = [ word "=" ] value
//! value     = word | string | "{" glob { "," glob } "}" | "[" [ value { "," value } ] "]"
//! ```
//!
//! `#` begins a comment. Inside brackets a line may end anywhere.

use std::ops::Range;

use super::error::{Fault, Problem};

/// Lists in lists deeper than this are refused.
const DEEPEST: usize = 16;

/// A part of the script and where it stands, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spanned<T> {
    pub(crate) value: T,
    pub(crate) span: Range<usize>,
}

/// One line of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Statement {
    /// What the result is called.
    pub(crate) names: Vec<Spanned<String>>,
    pub(crate) body: Body,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    Call(Call),
    Value(Spanned<Value>),
}

/// A command and its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) command: Spanned<String>,
    pub(crate) positional: Vec<Spanned<Value>>,
    pub(crate) named: Vec<(Spanned<String>, Spanned<Value>)>,
}

/// What an argument can be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    /// A name, a number, a switch or a quoted string.
    Word(String),
    /// `{conv*}`, or a role: `{residual_adds}`.
    Glob(String),
    /// `[a, b]`, or several globs in one pair of braces.
    List(Vec<Spanned<Value>>),
}

/// Reads a script.
pub(crate) fn parse(text: &str) -> Result<Vec<Statement>, Problem> {
    let tokens = tokens(text)?;
    let mut parser = Parser { tokens: &tokens, at: 0, end: text.len() };
    let mut statements = Vec::new();
    loop {
        while parser.eat(&Token::EndOfLine).is_some() {}
        if parser.at == tokens.len() {
            return Ok(statements);
        }
        statements.push(parser.statement()?);
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    Quoted(String),
    Mark(char),
    EndOfLine,
}

fn tokens(text: &str) -> Result<Vec<Spanned<Token>>, Problem> {
    let mut tokens = Vec::new();
    let mut rest = text.char_indices().peekable();
    let mut open = 0_usize;
    while let Some((start, character)) = rest.next() {
        let mut push = |value, end| tokens.push(Spanned { value, span: start..end });
        let next = start + character.len_utf8();
        match character {
            '\n' if open == 0 => push(Token::EndOfLine, next),
            '#' => while rest.next_if(|(_, character)| *character != '\n').is_some() {},
            '\u{feff}' if start == 0 => {}
            _ if character.is_whitespace() => {}
            '(' | '[' | '{' | ')' | ']' | '}' | ',' | '=' => {
                match character {
                    '(' | '[' | '{' => open += 1,
                    ')' | ']' | '}' => open = open.saturating_sub(1),
                    _ => {}
                }
                push(Token::Mark(character), next);
            }
            '"' | '\'' => {
                let mut quoted = String::new();
                let end = loop {
                    match rest.next() {
                        Some((at, found)) if found == character => break at + 1,
                        Some((_, found)) if found != '\n' => quoted.push(found),
                        _ => return Err(Fault::Unclosed { open: character }.at(start..next)),
                    }
                };
                push(Token::Quoted(quoted), end);
            }
            _ if in_word(character) => {
                let (mut word, mut end) = (String::from(character), next);
                while let Some((at, found)) = rest.next_if(|(_, character)| in_word(*character)) {
                    word.push(found);
                    end = at + found.len_utf8();
                }
                push(Token::Word(word), end);
            }
            _ => return Err(Fault::Character { found: character }.at(start..next)),
        }
    }
    Ok(tokens)
}

fn in_word(character: char) -> bool {
    character.is_alphanumeric() || "_./*?-+:$".contains(character)
}

struct Parser<'a> {
    tokens: &'a [Spanned<Token>],
    at: usize,
    /// Where the script ends.
    end: usize,
}

impl Parser<'_> {
    fn eat(&mut self, token: &Token) -> Option<Range<usize>> {
        let found = self.tokens.get(self.at).filter(|found| found.value == *token)?;
        self.at += 1;
        Some(found.span.clone())
    }

    fn expected(&self, expected: &'static str) -> Problem {
        let (found, span) = match self.tokens.get(self.at) {
            Some(Spanned { value: Token::EndOfLine, span }) => ("the end of the line".to_owned(), span.clone()),
            Some(Spanned { value: Token::Word(word) | Token::Quoted(word), span }) => {
                (format!("`{word}`"), span.clone())
            }
            Some(Spanned { value: Token::Mark(mark), span }) => (format!("`{mark}`"), span.clone()),
            None => ("the end of the script".to_owned(), self.end..self.end),
        };
        Fault::Syntax { expected, found }.at(span)
    }

    fn mark(&mut self, mark: char, expected: &'static str) -> Result<Range<usize>, Problem> {
        self.eat(&Token::Mark(mark)).ok_or_else(|| self.expected(expected))
    }

    fn word(&mut self, expected: &'static str) -> Result<Spanned<String>, Problem> {
        match self.tokens.get(self.at) {
            Some(Spanned { value: Token::Word(word), span }) => {
                self.at += 1;
                Ok(Spanned { value: word.clone(), span: span.clone() })
            }
            _ => Err(self.expected(expected)),
        }
    }

    fn statement(&mut self) -> Result<Statement, Problem> {
        let mut names = vec![self.word("a command or a name")?];
        while self.eat(&Token::Mark(',')).is_some() {
            names.push(self.word("a name")?);
        }
        let body = if self.eat(&Token::Mark('=')).is_some() {
            match self.tokens.get(self.at..self.at + 2) {
                Some([Spanned { value: Token::Word(_), .. }, Spanned { value: Token::Mark('('), .. }]) => {
                    let command = self.word("a command")?;
                    Body::Call(self.call(command)?)
                }
                _ => Body::Value(self.value(0)?),
            }
        } else {
            match (names.pop(), names.is_empty()) {
                (Some(command), true) => Body::Call(self.call(command)?),
                _ => return Err(self.expected("`=` after names")),
            }
        };
        if self.at < self.tokens.len() && self.eat(&Token::EndOfLine).is_none() {
            return Err(self.expected("the end of the line"));
        }
        Ok(Statement { names, body })
    }

    fn call(&mut self, command: Spanned<String>) -> Result<Call, Problem> {
        self.mark('(', "`(` after the command")?;
        let mut call = Call { command, positional: Vec::new(), named: Vec::new() };
        while self.eat(&Token::Mark(')')).is_none() {
            let value = self.value(0)?;
            match value {
                Spanned { value: Value::Word(key), span } if self.eat(&Token::Mark('=')).is_some() => {
                    call.named.push((Spanned { value: key, span }, self.value(0)?));
                }
                value => call.positional.push(value),
            }
            if self.eat(&Token::Mark(',')).is_none() {
                self.mark(')', "`,` or `)`")?;
                break;
            }
        }
        Ok(call)
    }

    fn value(&mut self, depth: usize) -> Result<Spanned<Value>, Problem> {
        if let Some(open) = self.eat(&Token::Mark('[')) {
            if depth == DEEPEST {
                return Err(Fault::Nested { deepest: DEEPEST }.at(open));
            }
            let (values, end) = self.until(']', "`,` or `]`", |parser| parser.value(depth + 1))?;
            return Ok(Spanned { value: Value::List(values), span: open.start..end });
        }
        if let Some(open) = self.eat(&Token::Mark('{')) {
            let glob = |parser: &mut Self| {
                let Spanned { value, span } = parser.word("a role or a pattern of layer names")?;
                Ok(Spanned { value: Value::Glob(value), span })
            };
            let (mut globs, end) = self.until('}', "`,` or `}`", glob)?;
            let span = open.start..end;
            return match (globs.pop(), globs.is_empty()) {
                (Some(only), true) => Ok(Spanned { value: only.value, span }),
                (last, _) => {
                    globs.extend(last);
                    Ok(Spanned { value: Value::List(globs), span })
                }
            };
        }
        match self.tokens.get(self.at) {
            Some(Spanned { value: Token::Word(word) | Token::Quoted(word), span }) => {
                self.at += 1;
                Ok(Spanned { value: Value::Word(word.clone()), span: span.clone() })
            }
            _ => Err(self.expected("a value")),
        }
    }

    /// Values up to a closing mark, and where that ends.
    fn until(
        &mut self,
        close: char,
        expected: &'static str,
        mut one: impl FnMut(&mut Self) -> Result<Spanned<Value>, Problem>,
    ) -> Result<(Vec<Spanned<Value>>, usize), Problem> {
        let mut values = Vec::new();
        loop {
            if let Some(span) = self.eat(&Token::Mark(close)) {
                return Ok((values, span.end));
            }
            values.push(one(self)?);
            if self.eat(&Token::Mark(',')).is_none() {
                let span = self.mark(close, expected)?;
                return Ok((values, span.end));
            }
        }
    }
}
