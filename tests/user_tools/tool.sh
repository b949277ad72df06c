#!/bin/sh
# A tool that is a program. Its behaviour is its first argument, and its name as well.
behaviour=$1
schema() { printf '{"name":"%s","description":"Counts words.\\nMore.","parameters":{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}}\n' "$1"; }

if [ "$2" = --schema ]; then
    echo asked >> asked
    case $behaviour in
    hangs) exec sleep 1000 ;;
    floods) exec yes 'no schema' ;;
    garbage) echo 'usage: tool.sh' ;;
    fails) echo 'module not found: words' >&2; exit 3 ;;
    lies) schema bash ;;
    text) printf '{"name":"text","description":"Does.","parameters":{"type":"string"}}' ;;
    *) schema "$behaviour" ;;
    esac
    exit
fi
read -r arguments
case $behaviour in
refuses) echo "so far"; echo "no such word" >&2; exit 4 ;;
slow) echo begun > begun; exec sleep 1000 ;;
long) echo start; head -c 1000000 /dev/zero | tr '\0' x; echo end ;;
writes) if echo x > /polylogue-was-here; then echo 'wrote outside'; else echo mine > inside; echo "outside is closed, token $TOKEN, key ${OPENAI_API_KEY-none}"; fi ;;
*) echo "got $arguments at $PWD"; echo 'a warning' >&2 ;;
esac
