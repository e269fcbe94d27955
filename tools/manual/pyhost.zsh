#compdef pyhost
# Completes pyhost in zsh. The words from the first that is not the host's on are completed as those of python3.

local curcontext="$curcontext" state state_descr line
local -A opt_args
integer at=2 ret=1

while (( at < CURRENT )); do
  case $words[at] in
    (@NEXT@) (( at += 2 )) ;;
    (--*=*|@OTHER@) (( at += 1 )) ;;
    (*) break ;;
  esac
done

# An option of the host's, or the value of one.
if (( at > CURRENT )) || [[ $at -eq $CURRENT && $words[CURRENT] == -* ]]; then
  _arguments -C : \
@ROWS@
    && ret=0
  case $state in
@STATES@
  esac
fi

if (( at < CURRENT )) || [[ $at -eq $CURRENT && $words[at] != --*=* ]]; then
  words=(python3 "${(@)words[at,-1]}")
  (( CURRENT -= at - 2 ))
  _normal && ret=0
fi
return ret
