//! The server on its socket, driven in this process by scripted clients over real connections: every request and its
//! refusals, what a client can say wrong, and all the ways in which one can be slow, silent, many, or gone.

mod approvals;
mod attached;
mod endings;
mod limits;
mod logs;
mod requests;
mod waits;
