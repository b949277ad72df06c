//! Package managers in the sandbox fetch from a registry on loopback that their call names.

use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

use super::proxy::{Server, app, can_restrict, read_head, run};

/// Whether a program runs here, also in the sandbox.
fn is_here(program: &str) -> bool {
    let is_here = Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success());
    if !is_here {
        eprintln!("there is no {program} here: it is not tried");
    }
    is_here
}

/// An archive of files in this directory.
fn archive(directory: &str, files: &[(&str, &str)]) -> Vec<u8> {
    let top = TempDir::new().expect("a directory");
    for (name, text) in files {
        let path = top.path().join(directory).join(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        std::fs::write(path, text).expect("a file");
    }
    let output = Command::new("tar").args(["cz", "-C"]).arg(top.path()).arg(directory).output().expect("tar");
    assert!(output.status.success());
    output.stdout
}

/// A server that answers with what `file` gives for a host and a path, and otherwise with 404.
fn registry(file: impl Fn(&str, &str) -> Option<Vec<u8>> + Clone + Send + 'static) -> Server {
    Server::start(move |stream| {
        let head = read_head(stream);
        let path = head.split(' ').nth(1).unwrap_or_default();
        let host = stream.local_addr().expect("an address").to_string();
        let (status, body) = file(&host, path).map_or(("404 Not Found", Vec::new()), |body| ("200 OK", body));
        let head_of_answer =
            format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
        stream.write_all(head_of_answer.as_bytes()).and_then(|()| stream.write_all(&body)).unwrap_or_default();
        head
    })
}

fn write(directory: &Path, name: &str, text: &str) {
    std::fs::create_dir_all(directory.join(name).parent().expect("a parent")).expect("a directory");
    std::fs::write(directory.join(name), text).expect("a file");
}

#[test]
fn cargo_fetches_a_crate_and_builds_with_it() {
    if !can_restrict() || !is_here("cargo") || !is_here("tar") {
        return;
    }
    let manifest = "[package]\nname = \"tiny\"\nversion = \"1.0.0\"\nedition = \"2021\"\n";
    let code = "pub fn word() -> &'static str { \"fetched\" }\n";
    let package = archive("tiny-1.0.0", &[("Cargo.toml", manifest), ("src/lib.rs", code)]);
    let server = registry(move |host, path| match path {
        "/config.json" => Some(format!(r#"{{"dl":"http://{host}/dl"}}"#).into_bytes()),
        "/ti/ny/tiny" => {
            let sum: String = Sha256::digest(&package).iter().map(|byte| format!("{byte:02x}")).collect();
            let line = r#"{"name":"tiny","vers":"1.0.0","deps":[],"features":{},"yanked":false,"cksum":""#;
            Some(format!("{line}{sum}\"}}\n").into_bytes())
        }
        "/dl/tiny/1.0.0/download" => Some(package.clone()),
        _ => None,
    });
    let mut app = app(&[&server.host(), "127.0.0.1:1"]);
    let source = format!(
        "[source.crates-io]\nreplace-with = \"here\"\n[source.here]\nregistry = \"sparse+http://{}/\"\n",
        server.host()
    );
    let directory = app.directory();
    write(&directory, ".cargo/config.toml", &source);
    write(&directory, "Cargo.toml", "[package]\nname = \"c\"\nedition = \"2021\"\n[dependencies]\ntiny = \"1\"\n");
    write(&directory, "src/main.rs", "fn main() { println!(\"{}\", tiny::word()) }\n");
    let script = "cargo fetch -q 2>&1 && cargo run -q --offline 2>&1";
    assert_eq!(run(&mut app, script, &[&server.host()]), "fetched\n");
    // Without the host it fails, and says what the network did.
    let refused = run(&mut app, &format!("rm Cargo.lock; {script} | tail -n 1"), &["127.0.0.1:1"]);
    assert!(refused.contains(&format!("[network: the command may not connect to {}", server.host())), "{refused}");
}

#[test]
fn npm_installs_a_package() {
    if !can_restrict() || !is_here("npm") || !is_here("tar") {
        return;
    }
    let manifest = r#"{"name":"tiny","version":"1.0.0","main":"index.js"}"#;
    let package = archive("package", &[("package.json", manifest), ("index.js", "module.exports = 'installed'\n")]);
    let server = registry(move |host, path| match path {
        "/tiny" => {
            let version =
                format!(r#"{{"name":"tiny","version":"1.0.0","dist":{{"tarball":"http://{host}/tiny.tgz"}}}}"#);
            let all = format!(r#"{{"name":"tiny","dist-tags":{{"latest":"1.0.0"}},"versions":{{"1.0.0":{version}}}}}"#);
            Some(all.into_bytes())
        }
        "/tiny.tgz" => Some(package.clone()),
        _ => None,
    });
    let mut app = app(&[&server.host()]);
    write(&app.directory(), "package.json", r#"{"name":"c","version":"1.0.0"}"#);
    let script = format!(
        "npm install tiny --registry http://{}/ --no-audit --no-fund > log 2>&1 || cat log
         node -p 'require(\"tiny\")'",
        server.host()
    );
    assert_eq!(run(&mut app, &script, &[&server.host()]), "installed\n");
}
