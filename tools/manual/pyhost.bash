# Completes pyhost in bash. The words from the first that is not the host's on are completed as those of python3.

_pyhost() {
    local words=() starts=() values="" path="" name="" value word line key before known
    local -i at first
    # bash splits words at = and : as COMP_WORDBREAKS says: joined again, up to the cursor.
    for ((at = 1; at <= COMP_CWORD; at++)); do
        if ((${#words[@]})) && [[ ${COMP_WORDS[at]} == [=:]* || ${COMP_WORDS[at - 1]} == [=:] ]]; then
            words[-1]+=${COMP_WORDS[at]}
        else
            words+=("${COMP_WORDS[at]}") starts+=("$at")
        fi
    done
    for ((at = 0; at < ${#words[@]} - 1; at++)); do
        case ${words[at]} in
        @NEXT@) name=${words[at++]} ;;
        --*=* | @OTHER@) name="" ;;
        *) break ;;
        esac
    done
    # The cursor is in the value of an option in a word of its own, or in one behind an equals sign, or else at `word`.
    ((at == ${#words[@]})) || name=""
    word=${words[at]:-} value=${words[-1]}
    if [[ $at -eq ${#words[@]}-1 && $word == --*=* ]]; then
        name=${word%%=*} value=${word#*=}
    fi
    COMPREPLY=()
    if [[ -n $name ]]; then
        case $name in
@ROWS@
        esac
        key=${value##*,}
        if [[ $key == *=* || $key == file:* ]]; then
            path=1 values="" key=${key#*[=:]}
        fi
        # bash replaces what follows the last = or : of the word.
        before=${value%"$key"}
        before=${before##*[=:]}
        COMPREPLY=($(compgen -W "$values" -P "$before" -- "$key"))
        if [[ -n $path ]]; then
            local IFS=$'\n'
            COMPREPLY+=($(compgen -f -P "$before" -- "$key"))
            compopt -o filenames
        fi
        [[ ${COMPREPLY[0]:-} != *[=:] ]] || compopt -o nospace
        return
    fi
    if [[ $at -eq ${#words[@]}-1 && $word == --* ]]; then
        # Both forms of one whose value is behind an equals sign, so that bash adds no space.
        COMPREPLY=($(compgen -W "@ALL@ @WITH_VALUE@=" -- "$word"))
        return
    fi
    # bash-completion's function for python3, as if the line began there.
    first=${starts[at]} line=${COMP_LINE:0:COMP_POINT}
    for word in "${COMP_WORDS[@]:0:first}"; do
        line=${line#*"$word"}
    done
    COMP_WORDS=(python3 "${COMP_WORDS[@]:first}")
    COMP_CWORD=$((COMP_CWORD - first + 1)) COMP_LINE="python3$line"
    COMP_POINT=${#COMP_LINE}
    if declare -F _comp_load >/dev/null; then
        _comp_load python3
    elif declare -F __load_completion >/dev/null; then
        __load_completion python3
    fi
    known=$(complete -p python3 2>/dev/null)
    if [[ $known =~ -F\ ([^ ]+) ]]; then
        "${BASH_REMATCH[1]}" python3 "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        return
    fi
    local IFS=$'\n' file
    compopt -o filenames
    for file in $(compgen -f -- "${COMP_WORDS[COMP_CWORD]}"); do
        [[ $COMP_CWORD -gt 1 || -d $file || $file == *.py || $file == *.pyz ]] && COMPREPLY+=("$file")
    done
}

complete -F _pyhost pyhost
