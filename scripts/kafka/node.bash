# shellcheck shell=bash
# One Kafka node: its settings, its process, its end. Sourced by scripts/servers, which sets `dir`, the cluster's
# folder; node N lives in $dir/node-N, and its process is known by that path in its command line.

# free_ports COUNT: ports on which nobody listens, reserved for $dir as long as that folder exists.
#
# They lie outside the range from which the kernel serves outgoing connections. Inside it, a client that knocks at a
# stopped node's port can be given that very port, talk to itself, and keep the node from coming back.
free_ports() {
  local low high lock port count=$1 ports=$cache/servers/ports
  read -r low high </proc/sys/net/ipv4/ip_local_port_range
  if ((low > 16000)); then
    high=$low low=12000
  else
    low=$((high + 1)) high=65536
  fi
  mkdir -p "$ports"
  exec {lock}>"$ports/.lock"
  flock "$lock"
  while ((count > 0)); do
    port=$((low + SRANDOM % (high - low)))
    if [[ -f $ports/$port && -d $(<"$ports/$port") ]] || (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
      continue
    fi
    echo "$dir" >"$ports/$port"
    echo "$port"
    count=$((count - 1))
  done
  exec {lock}>&-
}

release_ports() { grep -lxF -r -- "$dir" "$cache/servers/ports" 2>/dev/null | xargs -r rm -f || true; }

# node_settings N COUNT VOTERS LISTENERS: what a broker for tests needs to be quick, small and true.
node_settings() {
  local replicas=$2
  cat <<SETTINGS
node.id=$1
process.roles=broker,controller
controller.quorum.voters=$3
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL
listeners=$4
log.dirs=$dir/node-$1/data

# Tests create their topics, and keep what they wrote whatever its timestamp says.
auto.create.topics.enable=false
num.partitions=4
default.replication.factor=$replicas
min.insync.replicas=$((replicas > 1 ? 2 : 1))
log.retention.ms=-1
log.message.timestamp.after.max.ms=9223372036854775807

offsets.topic.num.partitions=4
offsets.topic.replication.factor=$replicas
transaction.state.log.num.partitions=4
transaction.state.log.replication.factor=$replicas
transaction.state.log.min.isr=$((replicas > 1 ? 2 : 1))
share.coordinator.state.topic.replication.factor=$replicas
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
transaction.abort.timed.out.transaction.cleanup.interval.ms=1000

# Several clusters share two cores.
num.network.threads=2
num.io.threads=4
num.replica.fetchers=1
background.threads=2
log.cleaner.threads=1
log.cleaner.dedupe.buffer.size=4194304
SETTINGS
}

sasl_settings() {
  local listener users='user_alice="alice-secret" user_admin="admin-secret"' module=org.apache.kafka.common.security
  for listener in sasl_plaintext sasl_ssl; do
    cat <<SETTINGS

listener.name.$listener.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512
listener.name.$listener.plain.sasl.jaas.config=$module.plain.PlainLoginModule required $users;
listener.name.$listener.scram-sha-256.sasl.jaas.config=$module.scram.ScramLoginModule required;
listener.name.$listener.scram-sha-512.sasl.jaas.config=$module.scram.ScramLoginModule required;
SETTINGS
  done
}

acl_settings() {
  cat <<SETTINGS

authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:admin;User:ANONYMOUS
SETTINGS
}

tls_settings() {
  cat <<SETTINGS

ssl.keystore.type=PEM
ssl.keystore.location=$dir/tls/server.pem
SETTINGS
}

# make_certificates: an authority of this cluster alone, and its certificate for 127.0.0.1 and localhost.
make_certificates() {
  local tls=$dir/tls
  mkdir -p "$tls"
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3650 -subj '/CN=Tidegate test authority' \
    -keyout "$tls/ca.key" -out "$tls/ca.pem" 2>/dev/null
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3650 -subj '/CN=localhost' \
    -addext 'subjectAltName=IP:127.0.0.1,DNS:localhost' -addext 'basicConstraints=critical,CA:FALSE' \
    -CA "$tls/ca.pem" -CAkey "$tls/ca.key" -keyout "$tls/server.key" -out "$tls/server.crt" 2>/dev/null
  cat "$tls/server.key" "$tls/server.crt" >"$tls/server.pem"
}

# node_port N: the port of its PLAINTEXT listener.
node_port() { sed -n 's#^listeners=PLAINTEXT://127.0.0.1:\([0-9]*\).*#\1#p' "$dir/node-$1/server.properties"; }

node_log_tail() {
  say "-- the end of $dir/node-$1/log:"
  tail -n 25 "$dir/node-$1/log" >&2 || true
}

# pids N...: the processes of these nodes. The pattern goes through a pipe, so that grep does not find itself.
pids() {
  printf "$dir/node-%s/server.properties\n" "$@" | grep -lzxF -f - /proc/[0-9]*/cmdline 2>/dev/null | cut -d/ -f3 || true
}

# launch N: starts the node's process and does not wait.
launched=()
launch() {
  local node=$dir/node-$1
  detach "$node" "$node/log" java "@$dir/java-options" kafka.Kafka "$node/server.properties"
  launched[$1]=$detached
}

# await_nodes SECONDS N...: until each of them answers and takes all of them for alive.
await_nodes() {
  local deadline=$((SECONDS + $1)) node alive other
  shift
  for node in "$@"; do
    while true; do
      alive=$'\n'$(live_nodes "$(node_port "$node")" || true)$'\n'
      for other in "$@"; do
        [[ $alive == *$'\n'$other$'\n'* ]] || alive=''
      done
      [[ -z $alive ]] || break
      kill -0 "${launched[node]}" 2>/dev/null || { node_log_tail "$node" && die "node $node has ended"; }
      ((SECONDS < deadline)) || { node_log_tail "$node" && die "node $node is not ready in time"; }
      sleep 0.1
    done
  done
}

# await_coordinators SECONDS PORT: until transactions and groups work.
await_coordinators() {
  local deadline=$((SECONDS + $1))
  until coordinators_work "$2" 4; do
    ((SECONDS < deadline)) || die "the transaction and group coordinators do not work in time, see $dir/node-*/log"
    sleep 0.1
  done
}

# stop SECONDS N...: an orderly end, then SIGKILL. With 0 seconds SIGKILL at once.
stop() {
  local deadline=$((SECONDS + $1)) running orderly=$1
  shift
  mapfile -t running < <(pids "$@")
  while ((${#running[@]})); do
    if ((orderly && SECONDS < deadline)); then
      # A node that is paused would not hear it before it continues.
      kill -TERM "${running[@]}" 2>/dev/null || true
      kill -CONT "${running[@]}" 2>/dev/null || true
    else
      kill -KILL "${running[@]}" 2>/dev/null || true
    fi
    sleep 0.1
    mapfile -t running < <(pids "$@")
  done
}
