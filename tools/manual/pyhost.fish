# Completes pyhost in fish. The words from the first that is not the host's on are completed as those of python3.

# Prints these words, without the one at the cursor; a status of 1: there is none.
function __pyhost_python_words
    set -l words (commandline -opc)
    set -e words[1]
    while set -q words[1]
        switch $words[1]
            case @NEXT@
                set -e words[1]
                set -q words[1]; and set -e words[1]
            case '--*=*' @OTHER@
                set -e words[1]
            case '*'
                string escape -- $words
                return 0
        end
    end
    return 1
end

function __pyhost_at_host
    not __pyhost_python_words >/dev/null
end

function __pyhost_python
    set -l words (__pyhost_python_words)
    set -l word (commandline -ct)
    if not set -q words[1]; and string match -q -- '--*' $word
        return
    end
    complete -C "python3 "(string join ' ' -- $words $word)
end

# Values and keys, after those that are there already.
function __pyhost_values
    set -l before (commandline -ct | string replace -r -- '^--[^=]*=' '' | string replace -r '[^,]*$' '')
    for each in $argv
        echo "$before$each"
    end
end

complete -c pyhost -f -a '(__pyhost_python)'
@ROWS@
