//! `--trajectory`: the conversation of a run in the Agent Trajectory Interchange Format.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use super::Home;

/// What the format demands beyond its fields (RFC 0001 of Harbor, version 1.8): steps are numbered, fields of agents stand in
/// their steps alone, and results refer to calls of their step.
fn assert_valid(trajectory: &Value) {
    assert_eq!(trajectory["schema_version"], "ATIF-v1.8");
    for (index, step) in trajectory["steps"].as_array().expect("steps").iter().enumerate() {
        assert_eq!(step["step_id"], index + 1, "{step}");
        assert!(
            step["message"].is_string() && step["timestamp"].as_str().is_some_and(|at| at.ends_with('Z')),
            "{step}"
        );
        let of_agent = ["model_name", "reasoning_content", "tool_calls", "metrics"];
        assert!(step["source"] == "agent" || of_agent.iter().all(|name| step[name].is_null()), "{step}");
        let calls: Vec<&Value> =
            step["tool_calls"].as_array().into_iter().flatten().map(|call| &call["tool_call_id"]).collect();
        for result in step["observation"]["results"].as_array().into_iter().flatten() {
            let call = &result["source_call_id"];
            assert!(call.is_null() || calls.contains(&call), "{step}");
        }
    }
    for forked in trajectory["subagent_trajectories"].as_array().into_iter().flatten() {
        assert_valid(forked);
    }
}

fn read(home: &Home, name: &str) -> Value {
    let text = fs::read(home.directory.path().join(name)).expect("a trajectory");
    let trajectory: Value = serde_json::from_slice(&text).expect("JSON");
    assert_valid(&trajectory);
    trajectory
}

#[test]
fn calls_results_and_forked_agents_are_in_the_trajectory() {
    let home = Home::new();
    let prompt = "%think hm\nI look\n%tool read_file {\"path\":\"none\"}\n%tool fork {\"prompt\":\"help\"}\n\
                  %tool wait {\"timeout\":5}\n%next\nall done";
    let output = home.run(&["-p", "--approval", "yolo", "--trajectory", "run.json", prompt]);
    assert_eq!(output.code, 0, "{output:?}");
    let trajectory = read(&home, "run.json");
    let steps = trajectory["steps"].as_array().expect("steps");
    let sources: Vec<(&str, &str)> = steps
        .iter()
        .map(|step| (step["source"].as_str().unwrap_or_default(), step["message"].as_str().unwrap_or_default()))
        .filter(|(source, _)| *source != "system")
        .collect();
    assert_eq!(sources[1..], [("agent", "I look"), ("agent", "all done")], "{trajectory:#}");
    let reply = &steps[1];
    assert_eq!((&reply["reasoning_content"], &reply["model_name"]), (&json!("hm"), &json!("echo/echo")));
    let names: Vec<&Value> =
        reply["tool_calls"].as_array().expect("calls").iter().map(|call| &call["function_name"]).collect();
    assert_eq!(names, ["read_file", "fork", "wait"]);
    assert_eq!(reply["tool_calls"][0]["arguments"], json!({"path": "none"}));
    let results = reply["observation"]["results"].as_array().expect("results");
    assert_eq!((results.len(), &results[0]["extra"]["is_error"]), (3, &json!(true)), "{reply:#}");
    assert!(reply["metrics"]["completion_tokens"].as_u64() > Some(0), "{reply:#}");
    let child = &trajectory["subagent_trajectories"][0];
    let refers = |step: &&Value| {
        step["observation"]["results"][0]["subagent_trajectory_ref"][0]["trajectory_id"] == child["trajectory_id"]
    };
    assert!(steps.iter().any(|step| refers(&step)), "{trajectory:#}");
    let last = child["steps"].as_array().and_then(|steps| steps.last()).expect("a step");
    assert_eq!((&last["source"], &last["message"]), (&json!("agent"), &json!("help")), "{child:#}");
    let sum: u64 = steps.iter().filter_map(|step| step["metrics"]["prompt_tokens"].as_u64()).sum();
    assert_eq!(trajectory["final_metrics"]["total_prompt_tokens"], sum);
}

#[test]
fn a_failed_run_writes_it_too_and_an_existing_file_is_replaced() {
    let home = Home::new();
    let file = home.directory.path().join("run.json");
    fs::write(&file, "older").expect("a file");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o664)).expect("permissions");
    let output = home.run(&["-p", "--ephemeral", "--trajectory", "run.json", "%fail 401 no"]);
    assert_ne!(output.code, 0, "{output:?}");
    let trajectory = read(&home, "run.json");
    assert_eq!(trajectory["steps"][0]["source"], "user");
    let steps = trajectory["steps"].as_array().expect("steps");
    assert!(steps.iter().any(|step| step["source"] == "system"), "{trajectory:#}");
    assert_eq!(fs::metadata(&file).expect("a file").permissions().mode() & 0o777, 0o664);
    let names: Vec<_> = fs::read_dir(home.directory.path()).expect("a directory").flatten().collect();
    assert!(!names.iter().any(|entry| entry.file_name().to_string_lossy().contains(".new")), "{names:?}");
}

#[test]
fn nothing_is_sent_if_the_file_cannot_be_written() {
    let home = Home::new();
    let output = home.run(&["-p", "--trajectory", "no/such/run.json", "hello"]);
    assert_eq!((output.code, output.out.as_str()), (2, ""), "{output:?}");
    assert!(output.err.contains("cannot write --trajectory no/such/run.json"), "{output:?}");
}
