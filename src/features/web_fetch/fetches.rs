//! Fetches pages for the `web_fetch` tool: the name is looked up, the addresses are checked as those of the proxy, the page
//! is received, and a thread converts it to text.
//!
//! ```text
//!   begin ─▶ lookup ─▶ download ─▶ text ─▶ the result of the call
//!               ▲          │
//!               └──────────┘ a redirect to the same host
//! ```

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use super::proxy::proxy_for;
use super::tool::{self, Received};
use crate::base::clock::Moment;
use crate::base::error::Result;
use crate::base::id::AgentId;
use crate::domain::flow::ToolRequest;
use crate::domain::host::{Host, HostPattern};
use crate::domain::rule::Rule;
use crate::domain::tool::ToolCall;
use crate::domain::web_url::WebUrl;
use crate::net::{Download, Lookup, Page, Route};
use crate::proxy::AllowedHosts;
use crate::reactor::{Ready, Source};
use crate::repl::WakeReason;
use crate::repl::component::{Command, Component};
use crate::repl::core::Core;
use crate::tools::{Environment, Output, Running};

/// Pages of all agents at once.
const MAX_FETCHES: usize = 16;
/// Size of one page, in bytes, decompressed.
const MAX_BYTES: usize = 4 << 20;
const MAX_REDIRECTS: usize = 5;

/// The calls that are being carried out.
#[derive(Default)]
pub struct WebFetches {
    fetches: BTreeMap<u64, Fetching>,
    numbers: u64,
}

struct Fetching {
    agent: AgentId,
    call: String,
    url: WebUrl,
    hosts: AllowedHosts,
    environment: Arc<Environment>,
    until: Moment,
    redirects: usize,
    step: Step,
}

enum Step {
    Lookup(Lookup),
    Download(Box<Download>),
    Text(Running),
}

/// The result of a call.
type Answer = std::result::Result<String, String>;

impl WebFetches {
    /// Begins to fetch a page for a call, which is answered later.
    fn begin(
        &mut self,
        core: &mut Core,
        id: AgentId,
        call: &str,
        url: &str,
        timeout: Duration,
    ) -> std::result::Result<(), String> {
        if self.fetches.len() >= MAX_FETCHES {
            return Err(format!("too many pages are being fetched (limit {MAX_FETCHES}); try again later"));
        }
        let url = WebUrl::parse(url)?;
        let agent = core.agent(id).ok_or("the agent has ended")?;
        let environment = Arc::clone(&agent.inputs.environment);
        let hosts = |rules: &[Rule]| rules.iter().filter_map(Rule::hosts).collect::<Vec<HostPattern>>();
        let rules = agent.rules.over(&environment.rules, core.session_rules(), &environment.working_directory);
        let mut allowed = hosts(&rules.allow);
        allowed.extend(url.pattern().parse::<HostPattern>());
        let hosts = AllowedHosts { allowed, denied: hosts(&rules.deny) };
        self.numbers += 1;
        let until = core.now() + timeout;
        let step = connect(core, &url, &hosts, until)?;
        let call = call.to_owned();
        let fetching = Fetching { agent: id, call, url, hosts, environment, until, redirects: 0, step };
        self.fetches.insert(self.numbers, fetching);
        self.carry_out_requests(core, self.numbers);
        Ok(())
    }

    /// Watches the sockets as libcurl wants.
    fn carry_out_requests(&mut self, core: &mut Core, number: u64) {
        let Some(Step::Download(download)) = self.fetches.get_mut(&number).map(|fetch| &mut fetch.step) else { return };
        let requests = download.take_socket_requests();
        // A socket that cannot be watched is a transfer that ends at its time limit.
        let _ = core.reactor().apply(|fd| Source::Feature { name: "download", number, fd }, &requests);
    }

    fn end(&mut self, core: &mut Core, number: u64) -> Option<Fetching> {
        if let Some(Step::Download(download)) = self.fetches.get_mut(&number).map(|fetch| &mut fetch.step) {
            download.close();
        }
        self.carry_out_requests(core, number);
        self.fetches.remove(&number)
    }

    /// Continues a fetch. Returns its result, once it has ended.
    fn advance(&mut self, core: &mut Core, number: u64) -> Option<Answer> {
        let now = core.now();
        let fetch = self.fetches.get_mut(&number)?;
        match &mut fetch.step {
            Step::Lookup(lookup) => {
                let Some(found) = lookup.take_result() else {
                    return (fetch.until <= now)
                        .then(|| Err(format!("cannot resolve {} in time", fetch.url.target.host)));
                };
                let parse = |text: &String| text.trim_matches(['[', ']']).parse().ok();
                let found: Vec<IpAddr> = found.iter().flatten().filter_map(parse).collect();
                if found.is_empty() {
                    return Some(Err(format!("cannot resolve {}: no address found", fetch.url.target.host)));
                }
                self.receive(core, number, &found)
            }
            Step::Download(download) => {
                if download.timer().is_some_and(|at| at <= now) {
                    download.on_timer(now);
                }
                let outcome = download.take_outcome();
                self.carry_out_requests(core, number);
                match outcome? {
                    Ok(page) => self.on_page(core, number, page),
                    Err(error) => Some(Err(error.message)),
                }
            }
            Step::Text(running) => {
                if !running.is_complete() {
                    return None;
                }
                let Some(Fetching { step: Step::Text(running), agent, call, .. }) = self.fetches.remove(&number) else {
                    return None;
                };
                let result = running.collect();
                core.answer_call(agent, &call, if result.is_error { Err(result.content) } else { Ok(result.content) });
                None
            }
        }
    }

    /// Connects to the addresses that may be reached.
    fn receive(&mut self, core: &mut Core, number: u64, found: &[IpAddr]) -> Option<Answer> {
        let fetch = self.fetches.get_mut(&number)?;
        let route = direct(&fetch.url, &fetch.hosts, found);
        match route.and_then(|route| start(core, &fetch.url, &route, fetch.until)) {
            Ok(step) => fetch.step = step,
            Err(message) => return Some(Err(message)),
        }
        self.carry_out_requests(core, number);
        None
    }

    /// A response was received: a redirect is followed or reported, anything else is converted to text.
    fn on_page(&mut self, core: &mut Core, number: u64, page: Page) -> Option<Answer> {
        let location = page.location.clone().filter(|_| matches!(page.status, 301 | 302 | 303 | 307 | 308));
        if let Some(location) = location {
            return self.on_redirect(core, number, &location);
        }
        let fetch = self.fetches.get_mut(&number)?;
        let Page { status, content_type, body, is_cut, .. } = page;
        let received = Received { url: fetch.url.clone(), status, content_type, body, is_cut };
        let environment = Arc::clone(&fetch.environment);
        let call = ToolCall { id: fetch.call.clone(), name: "web_fetch".into(), arguments: String::new() };
        let work = move |_: &_| received.to_text(&environment).map_or_else(Output::failure, Output::success);
        match Running::spawn(call, work, core.waker()) {
            Ok(running) => fetch.step = Step::Text(running),
            Err(error) => return Some(Err(error.message)),
        }
        None
    }

    fn on_redirect(&mut self, core: &mut Core, number: u64, location: &str) -> Option<Answer> {
        let fetch = self.fetches.get(&number)?;
        let next = match fetch.url.join(location) {
            Ok(next) => next,
            Err(problem) => return Some(Err(format!("{} redirects to an invalid address: {problem}", fetch.url))),
        };
        if !fetch.url.leads_to(&next) {
            let message = format!(
                "{} redirects to {next}, which is not followed; to fetch it, call web_fetch with that URL",
                fetch.url
            );
            return Some(Ok(message));
        }
        if fetch.redirects >= MAX_REDIRECTS {
            return Some(Err(format!("{}: more than {MAX_REDIRECTS} redirects", fetch.url)));
        }
        let mut before = self.end(core, number)?;
        (before.url, before.redirects) = (next, before.redirects + 1);
        match connect(core, &before.url, &before.hosts, before.until) {
            Ok(step) => {
                before.step = step;
                self.fetches.insert(number, before);
                self.carry_out_requests(core, number);
                None
            }
            Err(message) => {
                core.answer_call(before.agent, &before.call, Err(message));
                None
            }
        }
    }
}

/// The next thing to do for a page: look its host up, or receive it.
fn connect(core: &Core, url: &WebUrl, hosts: &AllowedHosts, until: Moment) -> std::result::Result<Step, String> {
    hosts.check(&url.target)?;
    let proxy = proxy_for(url).map(Route::Proxy);
    match (&url.target.host, proxy) {
        (Host::Address(address), proxy) => {
            let direct = direct(url, hosts, &[*address])?;
            start(core, url, &proxy.unwrap_or(direct), until)
        }
        // Which address is reached is up to the proxy.
        (Host::Name(_), Some(proxy)) => start(core, url, &proxy, until),
        (Host::Name(_), None) => {
            let lookup = Lookup::start(url.target.to_string(), core.waker());
            lookup.map(Step::Lookup).map_err(|error| error.message)
        }
    }
}

/// The addresses that may be reached.
fn direct(url: &WebUrl, hosts: &AllowedHosts, found: &[IpAddr]) -> std::result::Result<Route, String> {
    let is_allowed = |address: &&IpAddr| hosts.check_address(&url.target, **address).is_ok();
    let addresses: Vec<IpAddr> = found.iter().filter(is_allowed).copied().collect();
    if addresses.is_empty() {
        let host = &url.target.host;
        let address = found.first().map(ToString::to_string).unwrap_or_default();
        return Err(format!(
            "{host} has the address {address}, which a rule denies or which is not public; the user can allow it with \
             net({address})"
        ));
    }
    Ok(Route::Direct(addresses))
}

fn start(core: &Core, url: &WebUrl, route: &Route, until: Moment) -> std::result::Result<Step, String> {
    let now = core.now();
    let timeout = (until - now).max(Duration::from_millis(1));
    let host = url.target.to_string();
    let download = Download::start(&url.to_string(), (&host, route), (MAX_BYTES, timeout), core.network(), now);
    download.map(|download| Step::Download(Box::new(download))).map_err(|error| error.message)
}

impl Component for WebFetches {
    fn on_ready(&mut self, ready: &[Ready], core: &mut Core) -> Result<()> {
        for item in ready {
            let Source::Feature { name: "download", number, fd } = item.source else { continue };
            if let Some(Step::Download(download)) = self.fetches.get_mut(&number).map(|fetch| &mut fetch.step) {
                download.on_socket(fd, item.readiness, core.now());
            }
            self.carry_out_requests(core, number);
            core.reactor().rearm(item.source)?;
        }
        Ok(())
    }

    fn on_call(&mut self, core: &mut Core, agent: AgentId, call: &str, request: ToolRequest) -> Option<ToolRequest> {
        let ToolRequest::Feature { tool: tool::NAME, arguments } = &request else { return Some(request) };
        let (url, timeout) = tool::url_and_timeout(arguments);
        let begun = match core.config().replay.is_some() {
            true => Err("not available in a replay".to_owned()),
            false => self.begin(core, agent, call, url, timeout),
        };
        if let Err(message) = begun {
            core.answer_call(agent, call, Err(message));
        }
        None
    }

    fn step(&mut self, core: &mut Core, _: &mut Vec<Command>) {
        let numbers: Vec<u64> = self.fetches.keys().copied().collect();
        for number in numbers {
            let Some(fetch) = self.fetches.get(&number) else { continue };
            let waits = core.agent(fetch.agent).is_some_and(|agent| agent.is_waiting_call(&fetch.call));
            let outcome = if waits { self.advance(core, number) } else { Some(Err(String::new())) };
            if let Some(outcome) = outcome
                && let Some(Fetching { agent, call, .. }) = self.end(core, number)
            {
                core.answer_call(agent, &call, outcome);
            }
        }
    }

    fn deadline(&self, _: &Core) -> Option<(Moment, WakeReason)> {
        let due = |fetch: &Fetching| match &fetch.step {
            Step::Lookup(_) => Some(fetch.until),
            Step::Download(download) => download.timer(),
            Step::Text(_) => None,
        };
        self.fetches.values().filter_map(due).min().map(|at| (at, WakeReason::Feature("web")))
    }
}
