# shellcheck shell=bash
# Steps with a name and a duration, one path for the cache, and one lock around cargo's target folder.
# Sourced by the scripts beside it, which have `set -euo pipefail`.

checkout=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
cache=${TIDEGATE_CACHE:-$HOME/.cache/tidegate}
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$cache/target}

# say TEXT...: progress goes to standard error, so that standard output stays parsable.
say() { printf '%s\n' "$*" >&2; }

# die TEXT...: ends the script with one message.
die() {
  say "error: $*"
  exit 1
}

# usage: prints the comment at the head of the calling script.
usage() { sed -n '2,/^set /s/^# \{0,1\}//p' "$0"; }

# elapsed SINCE: seconds with one decimal since an earlier $EPOCHREALTIME.
elapsed() {
  local tenths=$(((${EPOCHREALTIME//[.,]/} - ${1//[.,]/}) / 100000))
  printf '%d.%d' $((tenths / 10)) $((tenths % 10))
}

# step NAME COMMAND...: runs the command and says how long it took. Never call it in a condition: bash would then
# ignore `set -e` inside the command.
step() {
  local name=$1 began=$EPOCHREALTIME
  shift
  say "== $name"
  "$@"
  say "== $name: $(elapsed "$began") s"
}

# lock_target: keeps cargo's target folder for this checkout until the script ends.
#
# Several checkouts may share one target folder. Cargo names what it builds by the path inside the workspace and
# decides by modification times, so what another checkout built from newer files would pass as ours. The stamp says
# whose files were built last; when it is not us, at this commit, our sources are touched. It is written before
# cargo runs, because an interrupted build has left files of this checkout.
lock_target() {
  local lock stamp=$CARGO_TARGET_DIR/.tidegate-stamp head name paths=()
  mkdir -p "$CARGO_TARGET_DIR"
  exec {lock}>"$CARGO_TARGET_DIR/.tidegate-lock"
  flock --nonblock "$lock" || {
    say "waiting for another build in $CARGO_TARGET_DIR"
    flock "$lock"
  }
  head=$(git -C "$checkout" rev-parse HEAD 2>/dev/null || echo 'no commit')
  if [[ -f $stamp && $(<"$stamp") == "$checkout $head" ]]; then
    return
  fi
  for name in src tests examples benches tools Cargo.toml Cargo.lock build.rs clippy.toml; do
    if [[ -e $checkout/$name ]]; then
      paths+=("$checkout/$name")
    fi
  done
  find "${paths[@]}" -type f -exec touch {} +
  printf '%s\n' "$checkout $head" >"$stamp"
}

# detach FOLDER LOG COMMAND...: starts a server there, in its own session and with none of our descriptors, and does not
# wait. Its process is in `detached`.
detach() {
  local folder=$1 log=$2 descriptor
  shift 2
  (
    for descriptor in /proc/"$BASHPID"/fd/*; do
      descriptor=${descriptor##*/}
      ((descriptor <= 2)) || eval "exec $descriptor>&-"
    done
    cd "$folder"
    exec setsid "$@"
  ) </dev/null >>"$log" 2>&1 &
  # shellcheck disable=SC2034  # read by whoever calls this
  detached=$!
  disown
}
