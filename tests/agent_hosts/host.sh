#!/bin/sh
# A scripted host that speaks the Agent Client Protocol. Its behaviour is its first argument.
behaviour=$1

say() { printf '%s\n' "$1"; }
answer() { say "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":$1}"; }
refuse() { say "{\"jsonrpc\":\"2.0\",\"id\":$id,\"error\":{\"code\":$1,\"message\":\"$2\"}}"; }
update() { say "{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{\"sessionId\":\"s1\",\"update\":{\"sessionUpdate\":\"$1\",$2}}}"; }
text() { update agent_message_chunk "\"content\":{\"type\":\"text\",\"text\":\"$1\"}"; }
call() { update tool_call "\"toolCallId\":\"$1\",\"title\":\"$2\",\"kind\":\"$3\",\"status\":\"in_progress\",\"rawInput\":{\"command\":\"$2\"}"; }
result() { update tool_call_update "\"toolCallId\":\"$1\",\"status\":\"$2\",\"content\":[{\"type\":\"content\",\"content\":{\"type\":\"text\",\"text\":\"$3\"}}]"; }
ask() {
    say "{\"jsonrpc\":\"2.0\",\"id\":100,\"method\":\"session/request_permission\",\"params\":{\"sessionId\":\"s1\",\"toolCall\":{\"toolCallId\":\"$1\"$2},\"options\":[{\"optionId\":\"no\",\"name\":\"No\",\"kind\":\"reject_once\"},{\"optionId\":\"all\",\"name\":\"Always\",\"kind\":\"allow_always\"},{\"optionId\":\"yes\",\"name\":\"Yes\",\"kind\":\"allow_once\"}]}}"
    read -r line
    case $line in
    *'"optionId":"yes"'*) answered=yes ;;
    *'"optionId":"no"'*) answered=no ;;
    *'"outcome":"cancelled"'*) answered=cancelled ;;
    *) answered="$line" ;;
    esac
}
# Sends a message to the MCP server that came with the session. Prints the status and the text of the result.
post() {
    bash -c '
        address=${1#http://} path=/${1#http://*/}
        exec 3<> "/dev/tcp/${address%%:*}/$(port=${address#*:}; echo "${port%%/*}")"
        printf "POST %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" "$path" "${#2}" "$2" >&3
        IFS= read -r status <&3
        while IFS= read -r line <&3 || [ -n "$line" ]; do last=$line; done
        last=${last//[[:cntrl:]]/}
        text=${last#*\"text\":\"}
        printf "%s %s" "${status:9:3}" "${text%%\",\"type\"*}"
    ' bash "$1" "$2"
}
tool() { post "$url" "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"$1\",\"arguments\":$2}}"; }
modes() { modes="{\"sessionId\":\"s1\",\"modes\":{\"currentModeId\":\"$mode\",\"availableModes\":[{\"id\":\"ask\",\"name\":\"Ask\"},{\"id\":\"plan\",\"name\":\"Plan\"}]}}"; }
end() { id=$prompt; answer "{\"stopReason\":\"$1\",\"usage\":{\"inputTokens\":7,\"outputTokens\":3,\"totalTokens\":10}}"; }

while read -r line; do
    id=${line#*\"id\":}
    id=${id%%[,\}]*}
    case $line in
    *'"method":"initialize"'*)
        case $behaviour in
        old) answer '{"protocolVersion":0}' ;;
        mute) ;;
        missing) echo 'cannot find module left-pad' >&2; exit 1 ;;
        sees) answer '{"protocolVersion":1,"agentCapabilities":{"promptCapabilities":{"image":true}}}' ;;
        modes) answer '{"protocolVersion":1,"agentCapabilities":{"loadSession":true}}' ;;
        *) answer '{"protocolVersion":1,"agentCapabilities":{"mcpCapabilities":{"http":true}},"authMethods":[{"id":"login","name":"Log in","description":"run login"}]}' ;;
        esac ;;
    *'"method":"session/new"'*)
        url=${line#*\"url\":\"}
        url=${url%%\"*}
        case $behaviour in
        auth) refuse -32000 'Authentication required' ;;
        modes) mode=ask; modes; answer "$modes" ;;
        thinks)
            value=default
            answer '{"sessionId":"s1","configOptions":[{"id":"effort","category":"thought_level","currentValue":"default","options":[{"value":"default"},{"value":"high"}]}]}' ;;
        commands)
            answer '{"sessionId":"s1"}'
            update available_commands_update '"availableCommands":[{"name":"polish","description":"Polish the text","input":{"hint":"FILE"}},{"name":"help","description":"Not this one"}]' ;;
        *) answer '{"sessionId":"s1"}' ;;
        esac ;;
    *'"method":"session/load"'*) mode=plan; modes; answer "$modes" ;;
    *'"method":"session/set_config_option"'*)
        value=${line#*\"value\":\"}
        value=${value%%\"*}
        answer '{}' ;;
    *'"method":"session/set_mode"'*)
        mode=${line#*\"modeId\":\"}
        mode=${mode%%\"*}
        answer '{}' ;;
    *'"method":"session/cancel"'*)
        [ "$behaviour" = edits ] && touch late
        [ "$behaviour" = stubborn ] || end cancelled ;;
    *'"method":"session/prompt"'*)
        prompt=$id
        case $behaviour in
        modes) text "mode: $mode"; end end_turn ;;
        thinks) text "thinks: $value"; end end_turn ;;
        sees | blind)
            blocks=
            rest=$line
            while case $rest in *'"type":"'*) true ;; *) false ;; esac do
                rest=${rest#*\"type\":\"}
                blocks="$blocks ${rest%%\"*}"
            done
            case $line in *'"mimeType":"image/png"'*) blocks="$blocks of png" ;; esac
            text "blocks:$blocks"
            end end_turn ;;
        commands)
            typed=${line#*\"text\":\"}
            text "got ${typed%%\"*}"
            end end_turn ;;
        dies) text half; echo 'out of memory' >&2; exit 9 ;;
        waits | stubborn) text 'I am here' ;;
        flood) yes '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789"}}}}' ;;
        garbage)
            say 'this is no JSON'
            say '[1,2]'
            say '{"id":"x","result":{}}'
            say '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"other","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"not for you"}}}}'
            update poem '"content":7'
            update tool_call '"title":7'
            say '{"jsonrpc":"2.0","id":"q","method":"fs/read_text_file","params":{"path":"/etc/passwd"}}'
            read -r line
            case $line in *'"code":-32601'*) text fine ;; *) text "unexpected" ;; esac
            end end_turn ;;
        parallel)
            text 'I begin. '
            call one 'sleep 1' execute
            call two 'touch two' execute
            text 'Between. '
            ask two ''
            result two completed "two: $answered"
            update plan '"entries":[{"content":"look","priority":"high","status":"completed"},{"content":"go","priority":"high","status":"in_progress"}]'
            result one completed 'one'
            text 'The end.'
            end end_turn ;;
        writes)
            try() { if touch "$1" 2> /dev/null; then echo yes; else echo no; fi; }
            try "$3" > /dev/null
            text "workspace $(try made), own $(try "$2")"
            end end_turn ;;
        forks)
            forked=$(tool fork '{"prompt":"hello","name":"helper","model":"echo/echo"}')
            update tool_call '"toolCallId":"own","title":"mcp__polylogue__send_mail","kind":"other","status":"pending","rawInput":{"to":"helper","body":"do this"}'
            ask own ''
            sent=$(tool send_mail '{"to":"helper","body":"do this"}')
            result own completed "$sent"
            text "fork: ${forked%% *}, mail: $answered $sent, bash: $(tool bash '{"command":"ls"}' | cut -c 1-3), guess: $(post "${url}0" '{}')"
            end end_turn ;;
        beside)
            call one 'touch one' execute
            say '{"jsonrpc":"2.0","id":100,"method":"session/request_permission","params":{"sessionId":"s1","toolCall":{"toolCallId":"one"},"options":[{"optionId":"yes","name":"Yes","kind":"allow_once"}]}}'
            listed=$(tool agents '{}')
            read -r line
            result one completed done
            text "agents: ${listed%% *}"
            end end_turn ;;
        longs) text "$(tool wait '{"timeout":50}')"; end end_turn ;;
        edits)
            echo "$line" >> a.txt
            mkdir -p made && touch made/one
            update tool_call '"toolCallId":"edit","title":"Edit","kind":"edit","status":"completed","content":[{"type":"diff","path":"a.txt","oldText":"","newText":"x"}]'
            text edited
            case $line in *stay*) ;; *) end end_turn ;; esac
            case $line in *leave*) exit ;; esac ;;
        plants) mkdir -p sub/.git/hooks; echo x > sub/.git/hooks/pre-commit; text planted; end end_turn ;;
        files)
            ask both ',"title":"Change two files","kind":"edit","content":[{"type":"diff","path":"a.txt","oldText":"a","newText":"b"},{"type":"diff","path":"secret/key","oldText":"a","newText":"b"}]'
            result both completed "$answered"
            end end_turn ;;
        asks)
            ask other ',"title":"Open the door","kind":"other","rawInput":{"door":"left"}'
            result other completed "$answered"
            text "door: $answered"
            end end_turn ;;
        *) text hello; end end_turn ;;
        esac ;;
    esac
done
