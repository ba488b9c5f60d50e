"""The scripts that connect shells with `leveretctl autocomplete`.

Each calls it with the words typed so far, the last one incomplete, and proposes what it prints.
Bash splits words at colons too, which are usual in names of queues, so the words are read from the
line.
"""

BASH = r"""# Completion of leveretctl for bash: source <(leveretctl completion bash)
_leveretctl() {
    local IFS=$'\n' line="${COMP_LINE:0:COMP_POINT}" current="${COMP_WORDS[COMP_CWORD]}"
    local word candidate
    local -a words
    mapfile -t words < <(xargs -n 1 printf '%s\n' <<< "$line" 2> /dev/null)
    [[ $line == *[[:space:]] && $line != *\\[[:space:]] ]] && words+=("")
    ((${#words[@]} > 1)) || return
    word="${words[-1]}"
    COMPREPLY=()
    while read -r candidate; do
        candidate=$(printf '%q' "$candidate")
        # What bash replaces begins after the last colon or equals sign.
        [[ $word == *[:=]* && $current != *[:=]?* ]] \
            && candidate="${candidate#"${word%"${word##*[:=]}"}"}"
        COMPREPLY+=("$candidate")
    done < <(leveretctl autocomplete -- "${words[@]:1}" 2> /dev/null)
    [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == */ ]] && compopt -o nospace
}
complete -F _leveretctl leveretctl"""

ZSH = r"""#compdef leveretctl
# Completion of leveretctl for zsh: source <(leveretctl completion zsh), or _leveretctl in $fpath
_leveretctl() {
    local -a found directories
    found=(${(f)"$(leveretctl autocomplete -- "${(@Q)words[2,CURRENT]}" 2> /dev/null)"})
    directories=(${(M)found:#*/})
    found=(${found:#*/})
    compadd -- $found
    compadd -S '' -- $directories
}
if [[ $funcstack[1] == _leveretctl ]]; then
    _leveretctl "$@"
else
    compdef _leveretctl leveretctl
fi"""

FISH = r"""# Completion of leveretctl for fish: leveretctl completion fish | source
complete -c leveretctl -f -a '(leveretctl autocomplete -- (commandline -opc)[2..-1] \
    (commandline -ct | string unescape) 2> /dev/null)'"""

SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}
