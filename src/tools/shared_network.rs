//! The network namespaces of an agent's background commands. Such a command gets one of its own, as every command does;
//! while it runs, the other commands of the agent that have the same powers over the network run in it too, so that they
//! reach a server there on its loopback address. Different powers never share one: the proxy of a command that may reach a
//! host is open to all commands in its namespace.
//!
//! ```text
//!   background command ── supervisor ── makes the namespaces ── their descriptors ──▶ SharedNetwork
//!   later command ─────── supervisor ◀── the same descriptors ─────────────────────── SharedNetwork
//! ```

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use crate::base::descriptors::receive_with;
use crate::domain::sandbox::Network;
use crate::sandbox::{Plan, Sharing};

/// How long a supervisor may take until its namespaces exist.
const PATIENCE: Duration = Duration::from_secs(5);

/// The present namespaces, by the network permissions of their commands. The agent keeps one of these; commands that
/// run in the background keep the namespaces.
#[derive(Debug, Clone, Default)]
pub struct SharedNetworks(Arc<Mutex<Vec<Weak<SharedNetwork>>>>);

/// The namespaces that a supervisor makes.
#[derive(Debug)]
pub struct SharedNetwork {
    network: Network,
    /// They come on this socket.
    socket: UnixStream,
    /// The user namespace and the network namespace; `None` if the supervisor could not make them.
    namespaces: OnceLock<Option<[OwnedFd; 2]>>,
}

/// What the supervisor of one command does with namespaces.
pub enum Shared {
    /// It makes its own, which end with the command.
    Nothing,
    /// It makes its own and sends them on this socket.
    Offer(Arc<SharedNetwork>, UnixStream),
    Join(Arc<SharedNetwork>),
}

impl SharedNetworks {
    /// For a command with this plan. A background command makes namespaces for others, if there are none yet.
    pub fn of(&self, plan: &Plan, is_background: bool) -> io::Result<Shared> {
        if !plan.level.has_namespaces() || plan.network == Network::Host {
            return Ok(Shared::Nothing);
        }
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|network| network.strong_count() > 0);
        let existing = all.iter().filter_map(Weak::upgrade).find(|network| network.network == plan.network);
        match existing {
            Some(network) if network.namespaces().is_some() => Ok(Shared::Join(network)),
            None if is_background => {
                let (socket, theirs) = UnixStream::pair()?;
                socket.set_read_timeout(Some(PATIENCE))?;
                let network = SharedNetwork { network: plan.network.clone(), socket, namespaces: OnceLock::new() };
                let network = Arc::new(network);
                all.push(Arc::downgrade(&network));
                Ok(Shared::Offer(network, theirs))
            }
            _ => Ok(Shared::Nothing),
        }
    }
}

impl SharedNetwork {
    /// Waits until they exist, but not for ever.
    fn namespaces(&self) -> Option<&[OwnedFd; 2]> {
        let receive = || receive_with(&self.socket, &mut [0]).ok().and_then(|(_, descriptor)| descriptor);
        self.namespaces.get_or_init(|| Some([receive()?, receive()?])).as_ref()
    }
}

impl Shared {
    /// The instruction for the supervisor.
    pub fn sharing(&self) -> Sharing {
        match self {
            Self::Nothing => Sharing::Nothing,
            Self::Offer(..) => Sharing::Offer,
            Self::Join(_) => Sharing::Join,
        }
    }

    /// The namespaces, without the socket on which they come.
    pub fn keep(self) -> Option<Arc<SharedNetwork>> {
        match self {
            Self::Nothing => None,
            Self::Offer(network, _) | Self::Join(network) => Some(network),
        }
    }

    /// The descriptors that it gets with that.
    pub fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        match self {
            Self::Nothing => Vec::new(),
            Self::Offer(_, socket) => vec![socket.as_fd()],
            Self::Join(network) => network.namespaces().into_iter().flatten().map(OwnedFd::as_fd).collect(),
        }
    }
}
