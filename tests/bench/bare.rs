//! What the same work costs without us: one mio poll, a curl multi a stream, each descriptor armed again after it was
//! served, bytes counted and thrown away. No parsing, no store, no screen.

use std::collections::HashMap;
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use curl::easy::{Easy2, Handler, List, WriteError};
use curl::multi::{Easy2Handle, Events, Multi, Socket, SocketEvents};
use mio::unix::SourceFd;
use mio::{Interest, Poll, Token};

use crate::process;

/// Counts the events of one stream.
#[derive(Default)]
struct Counter(usize);

impl Handler for Counter {
    fn write(&mut self, data: &[u8]) -> Result<usize, WriteError> {
        self.0 += data.windows(6).filter(|window| *window == b"data: ").count();
        Ok(data.len())
    }
}

/// What curl asked for during its last call.
#[derive(Default)]
struct Wishes {
    sockets: Vec<(Socket, Option<Interest>)>,
    timer: Option<Option<Duration>>,
}

struct Stream {
    transfer: Easy2Handle<Counter>,
    multi: Multi,
    wishes: Arc<Mutex<Wishes>>,
    due: Option<Instant>,
}

/// The loop and its streams.
pub struct Bare {
    poll: Poll,
    streams: Vec<Stream>,
    armed: HashMap<Token, (usize, RawFd, Interest)>,
}

impl Bare {
    /// As many requests to `url` as are asked for.
    pub fn start(url: &str, count: usize) -> Bare {
        let mut bare = Bare { poll: Poll::new().expect("a poll"), streams: Vec::new(), armed: HashMap::new() };
        for number in 0..count {
            bare.streams.push(stream(url, number));
            bare.grant(number);
        }
        bare
    }

    /// Turns for so long.
    pub fn run_for(&mut self, time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.turn(end);
        }
    }

    /// Processor time and events of the next `time`.
    pub fn measure(&mut self, time: Duration) -> (Duration, usize) {
        let (spent, seen) = (process::own_cpu(), self.seen());
        self.run_for(time);
        (process::own_cpu() - spent, self.seen() - seen)
    }

    fn seen(&self) -> usize {
        self.streams.iter().map(|stream| stream.transfer.get_ref().0).sum()
    }

    fn turn(&mut self, end: Instant) {
        let mut events = mio::Events::with_capacity(1024);
        let due = self.streams.iter().filter_map(|stream| stream.due).min();
        let until = due.map_or(end, |due| due.min(end));
        let wait = until.saturating_duration_since(Instant::now());
        self.poll.poll(&mut events, Some(wait)).expect("a poll of our own");
        for event in &events {
            self.serve(event.token(), event.is_readable(), event.is_writable());
        }
        self.serve_timers();
    }

    fn serve(&mut self, token: Token, readable: bool, writable: bool) {
        let Some(&(number, fd, interest)) = self.armed.get(&token) else { return };
        let mut events = Events::new();
        events.input(readable).output(writable);
        self.streams[number].multi.action(fd, &events).expect("a socket of this multi");
        self.grant(number);
        if self.armed.contains_key(&token) {
            self.poll.registry().reregister(&mut SourceFd(&fd), token, interest).expect("an open descriptor");
        }
    }

    fn serve_timers(&mut self) {
        let now = Instant::now();
        for number in 0..self.streams.len() {
            if self.streams[number].due.is_some_and(|due| due <= now) {
                self.streams[number].due = None;
                self.streams[number].multi.timeout().expect("a multi that is there");
                self.grant(number);
            }
        }
    }

    fn grant(&mut self, number: usize) {
        let wishes = std::mem::take(&mut *lock(&self.streams[number].wishes));
        if let Some(timer) = wishes.timer {
            self.streams[number].due = timer.map(|after| Instant::now() + after);
        }
        for (fd, interest) in wishes.sockets {
            let token = Token(fd as usize);
            let registry = self.poll.registry();
            let was_armed = self.armed.contains_key(&token);
            match interest {
                None => drop(self.armed.remove(&token).map(|_| registry.deregister(&mut SourceFd(&fd)))),
                Some(interest) => {
                    let source = &mut SourceFd(&fd);
                    let armed = match was_armed {
                        true => registry.reregister(source, token, interest),
                        false => registry.register(source, token, interest),
                    };
                    armed.expect("an open descriptor");
                    self.armed.insert(token, (number, fd, interest));
                }
            }
        }
    }
}

fn stream(url: &str, number: usize) -> Stream {
    let wishes = Arc::new(Mutex::new(Wishes::default()));
    let mut multi = Multi::new();
    let kept = Arc::clone(&wishes);
    let asked = move |fd, asked: SocketEvents, _| lock(&kept).sockets.push((fd, interest(&asked)));
    multi.socket_function(asked).expect("a multi that takes its callbacks");
    let kept = Arc::clone(&wishes);
    let timer = move |after| {
        lock(&kept).timer = Some(after);
        true
    };
    multi.timer_function(timer).expect("a multi that takes its callbacks");
    let transfer = multi.add2(request(url, number)).expect("a transfer");
    Stream { transfer, multi, wishes, due: Some(Instant::now()) }
}

fn interest(asked: &SocketEvents) -> Option<Interest> {
    let both = asked.input_and_output();
    match (asked.input() || both, asked.output() || both) {
        (true, true) => Some(Interest::READABLE | Interest::WRITABLE),
        (true, false) => Some(Interest::READABLE),
        (false, true) => Some(Interest::WRITABLE),
        (false, false) => None,
    }
}

fn request(url: &str, number: usize) -> Easy2<Counter> {
    let body = serde_json::json!({"messages": [{"role": "user", "content": format!("tag-{number}")}]}).to_string();
    let mut easy = Easy2::new(Counter::default());
    easy.url(&format!("{url}/chat/completions")).expect("a URL");
    easy.post(true).expect("a method");
    easy.post_fields_copy(body.as_bytes()).expect("a body");
    let mut headers = List::new();
    headers.append("Expect:").expect("a header");
    easy.http_headers(headers).expect("headers");
    easy
}

fn lock(wishes: &Mutex<Wishes>) -> MutexGuard<'_, Wishes> {
    wishes.lock().expect("one thread, and no call into curl while it is held")
}
