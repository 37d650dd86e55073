# shellcheck shell=bash
# What demo, tests, soak and bench have in common: a folder for the run, programs in it, a Kafka, and an orderly end.
# Sourced after steps.bash.
source "$(dirname "${BASH_SOURCE[0]}")/deployment/tools.bash"

# begin_run NAME: an empty folder .run/NAME, TIDEGATE_RUN_DIR, from which nothing runs when the script has ended.
begin_run() {
  export TIDEGATE_RUN_DIR=$checkout/.run/$1 TIDEGATE_BIN_DIR=$checkout/.run/$1/bin
  mkdir -p "$checkout/.run"
  exec {run_lock}>"$checkout/.run/$1.lock"
  flock --nonblock "$run_lock" || die "another $1 is running in $checkout"
  end_run
  rm -rf "$TIDEGATE_RUN_DIR"
  mkdir -p "$TIDEGATE_RUN_DIR"
  trap end_run EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
}

# end_run: what still runs from the run's programs, Kafka nodes and stores with data in its folder, and containers that
# carry its name, are killed. The pattern goes through a pipe, so that grep does not find itself.
end_run() {
  local pids
  if command -v podman >/dev/null; then
    podman ps --all --quiet --filter "label=tidegate.run=$TIDEGATE_RUN_DIR" | xargs -r podman rm --force --time 0 >/dev/null || true
  fi
  while true; do
    mapfile -t pids < <({
      find /proc/[0-9]*/exe -maxdepth 0 -lname "$TIDEGATE_RUN_DIR/*" || true
      printf '(hdfs.minidfs.basedir=)?%s/.*(node-[0-9]+/server.properties|/store)\n' "$TIDEGATE_RUN_DIR" | grep -lzxE -f - /proc/[0-9]*/cmdline
    } 2>/dev/null | cut -d/ -f3)
    ((${#pids[@]})) || break
    kill -KILL "${pids[@]}" 2>/dev/null || true
    sleep 0.1
  done
}

# start_kafka OPTION...: sets KAFKA_BOOTSTRAP unless the user did.
start_kafka() {
  if [[ -n ${KAFKA_BOOTSTRAP:-} ]]; then
    say "using the Kafka at $KAFKA_BOOTSTRAP"
    return
  fi
  step 'start Kafka' "$checkout/scripts/servers" up --dir "$TIDEGATE_RUN_DIR/kafka" "$@" >/dev/null
  KAFKA_BOOTSTRAP=$(sed -n 's/^bootstrap=//p' "$TIDEGATE_RUN_DIR/kafka/env")
  export KAFKA_BOOTSTRAP
}

# start_stores: sets S3_ENDPOINT, S3_BUCKET and the keys of AWS's environment, and HDFS_URI, unless the user did.
start_stores() {
  local s3=$TIDEGATE_RUN_DIR/s3 hdfs=$TIDEGATE_RUN_DIR/hdfs
  if [[ -z ${S3_ENDPOINT:-} ]]; then
    step 'start the S3 server' "$checkout/scripts/servers" s3 up --dir "$s3" >/dev/null
    S3_ENDPOINT=$(sed -n 's/^s3_endpoint=//p' "$s3/env")
    S3_BUCKET=$(sed -n 's/^s3_bucket=//p' "$s3/env")
    AWS_ACCESS_KEY_ID=$(sed -n 's/^s3_key=//p' "$s3/env")
    AWS_SECRET_ACCESS_KEY=$(sed -n 's/^s3_secret=//p' "$s3/env")
    export S3_ENDPOINT S3_BUCKET AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY
  fi
  if [[ -z ${HDFS_URI:-} ]]; then
    step 'start HDFS' "$checkout/scripts/servers" hdfs up --dir "$hdfs" >/dev/null
    HDFS_URI=$(sed -n 's/^hdfs_uri=//p' "$hdfs/env")
    export HDFS_URI
  fi
}

# run_tests PATTERN ARGUMENT...: the test programs whose name matches, each in its package's folder as cargo does it.
# All run, then the ones that failed are named.
run_tests() {
  local pattern=$1 name package began count=0 failed=()
  shift
  while IFS=$'\t' read -r name package <&3; do
    # shellcheck disable=SC2053 # A glob.
    [[ $name == $pattern ]] || continue
    began=$EPOCHREALTIME
    count=$((count + 1))
    say "-- $name"
    (cd "$package" && CARGO_MANIFEST_DIR=$package "$TIDEGATE_BIN_DIR/tests/$name" "$@" 3<&-) || failed+=("$name")
    say "-- $name: $(elapsed "$began") s"
  done 3<"$TIDEGATE_BIN_DIR/tests/list"
  ((count)) || die "no test program matches $pattern: see $TIDEGATE_BIN_DIR/tests/list"
  ((${#failed[@]} == 0)) || die "failed: ${failed[*]}"
}
