# shellcheck shell=bash
# One server of a store: its start and its end. Sourced by scripts/servers, which sets `dir`; the server's data lies in
# $dir/store, and its process is known by that path in its command line.

s3_key=tidegate
s3_secret=tidegate-secret
s3_bucket=tidegate

# store_up KIND: starts it, waits until it answers, and prints lines NAME=VALUE, also in $dir/env.
store_up() {
  local port
  [[ ! -f $dir/env ]] || die "$dir already holds a server: scripts/servers $1 down --dir $dir --purge removes it"
  [[ -z $(store_pids) ]] || die "a server in $dir is running: scripts/servers $1 down --dir $dir"
  mkdir -p "$dir/store"
  port=$(free_ports 1)
  trap 'stop_store 0 && release_ports' EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
  "${1}_up" "$port"
  mv "$dir/env.partial" "$dir/env"
  trap - EXIT INT TERM
  cat "$dir/env"
}

store_down() {
  if $purge; then
    stop_store 0
    rm -rf "$dir/store" "$dir/meta" "$dir/env" "$dir/log" "$dir/details"
    rmdir "$dir" 2>/dev/null || true
    release_ports
  else
    stop_store "$stop_seconds"
    rm -f "$dir/env"
  fi
}

# s3_up PORT: a gateway whose buckets are folders, with one bucket.
s3_up() {
  mkdir -p "$dir/store/$s3_bucket" "$dir/meta"
  launch_store env "ROOT_ACCESS_KEY=$s3_key" "ROOT_SECRET_KEY=$s3_secret" "$versitygw" --port "127.0.0.1:$1" \
    --region us-east-1 posix --sidecar "$dir/meta" "$dir/store"
  await_store "the S3 server" port_answers "$1"
  printf '%s\n' "s3_endpoint=http://127.0.0.1:$1" "s3_bucket=$s3_bucket" "s3_key=$s3_key" "s3_secret=$s3_secret" \
    "pid=$launched_store" >"$dir/env.partial"
}

# hdfs_up PORT: a name node and one data node in one JVM.
hdfs_up() {
  rm -f "$dir/details"
  launch_store java -Xmx384m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp "$hadoop_home/libs/*" \
    org.apache.hadoop.test.MiniDFSClusterManager -format -datanodes 1 -nnport "$1" \
    -D "hdfs.minidfs.basedir=$dir/store" -D dfs.namenode.fs-limits.min-block-size=0 -writeDetails "$dir/details"
  # It writes down where it is when name node and data node have found each other.
  await_store HDFS test -s "$dir/details"
  printf '%s\n' "hdfs_uri=hdfs://127.0.0.1:$1" "pid=$launched_store" >"$dir/env.partial"
}

port_answers() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# launch_store COMMAND...: starts it and does not wait.
launch_store() {
  detach "$dir" "$dir/log" "$@"
  launched_store=$detached
}

# await_store WHAT TEST...: until the test passes.
await_store() {
  local deadline=$((SECONDS + ready_seconds)) what=$1
  shift
  until "$@"; do
    kill -0 "$launched_store" 2>/dev/null || { tail -n 25 "$dir/log" >&2 && die "$what has ended, see $dir/log"; }
    ((SECONDS < deadline)) || { tail -n 25 "$dir/log" >&2 && die "$what is not ready in time, see $dir/log"; }
    sleep 0.1
  done
}

store_pids() {
  printf '(hdfs.minidfs.basedir=)?%s/store\n' "$dir" | grep -lzxE -f - /proc/[0-9]*/cmdline 2>/dev/null | cut -d/ -f3 || true
}

# stop_store SECONDS: an orderly end, then SIGKILL; with 0 seconds SIGKILL at once.
stop_store() {
  local deadline=$((SECONDS + $1)) running orderly=$1
  mapfile -t running < <(store_pids)
  while ((${#running[@]})); do
    if ((orderly && SECONDS < deadline)); then
      kill -TERM "${running[@]}" 2>/dev/null || true
    else
      kill -KILL "${running[@]}" 2>/dev/null || true
    fi
    sleep 0.1
    mapfile -t running < <(store_pids)
  done
}
