//! Servers that an agent runs in the background: its own later calls reach them on their ports, and nobody else does.

use serde_json::json;

use super::network::has_perl;
use super::proxy::{app, can_restrict, run};
use crate::support::harness::Harness;

/// A server that answers every connection with its name, and makes a file when it listens.
fn serve(app: &mut Harness, name: &str, port: u16) -> String {
    let script = format!(
        "exec perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new(Listen => 5, ReuseAddr => 1, LocalPort => {port}, \
         LocalAddr => \"127.0.0.1\") or die; open F, \">{name}\"; close F; while ($c = $s->accept) {{ print $c \"{name}\"; \
         close $c }}'"
    );
    app.say(0, &format!("%tool bash {}", json!({"command": script, "run_in_background": true})));
    app.turn_until_idle();
    app.turn_until("it listens", |app| app.directory().join(name).exists());
    let result = app.tool_results(0).pop().expect("a result").content;
    result.split([' ', ';']).find(|word| word.starts_with("bash_")).expect("an id").to_owned()
}

fn ask(port: u16) -> String {
    format!("exec 3<>/dev/tcp/127.0.0.1/{port} && cat <&3")
}

#[test]
fn a_server_is_reached_by_later_calls_of_its_agent_with_the_same_powers_alone() {
    if !can_restrict() || !has_perl() {
        return;
    }
    let mut app = app(&[]);
    app.fork(0);
    let first = serve(&mut app, "first", 8123);
    let _second = serve(&mut app, "second", 8124);
    assert_eq!(run(&mut app, &ask(8123), &[]), "first");
    assert_eq!(run(&mut app, &format!("{}; {}", ask(8123), ask(8124)), &[]), "firstsecond");
    let is_refused = |result: &str| assert!(result.contains("Connection refused"), "{result}");
    // It reaches more of the network than the servers do.
    is_refused(&run(&mut app, &ask(8123), &["example.org"]));
    app.say(1, &format!("%tool bash {}", json!({"command": ask(8123)})));
    app.turn_until_idle();
    is_refused(&app.tool_results(1).pop().expect("a result").content);
    // What is left of the namespaces is there for the second server.
    app.say(0, &format!("%tool bash_kill {}", json!({"bash_id": first})));
    app.turn_until_idle();
    assert_eq!(run(&mut app, &ask(8124), &[]), "second");
    is_refused(&run(&mut app, &ask(8123), &[]));
}

#[test]
fn the_walls_of_a_command_that_shares_a_network_are_its_own() {
    if !can_restrict() || !has_perl() {
        return;
    }
    let mut app = app(&[]);
    serve(&mut app, "up", 8125);
    let alone = ["ls /proc | grep -c '^[0-9]'", "cat /proc/sys/user/max_user_namespaces", "unshare -U true; echo $?"];
    let shared = run(&mut app, &alone.join("; "), &[]);
    let lines: Vec<&str> = shared.lines().collect();
    assert!(lines[0].parse::<u32>().is_ok_and(|processes| processes < 8), "it sees its own processes: {shared}");
    assert!(lines[1] == "0" && lines.last() != Some(&"0"), "{shared}");
    let out = run(&mut app, "echo kept > /tmp/x && touch /etc/x; ls /tmp", &[]);
    assert!(out.contains("Read-only file system") && out.contains('x'), "{out}");
    assert_eq!(run(&mut app, "ls /tmp", &[]), "[no output]", "files in /tmp are of one call");
}
