# shellcheck shell=bash
# What a build and a Kafka need on this machine, and how it gets there. Sourced by scripts/servers.
# Expects `cache` and `checkout` from steps.bash.

kafka_sources=$checkout/scripts/kafka
kafka_version=$(sed -n 's/.*<kafka.version>\(.*\)<.*/\1/p' "$kafka_sources/pom.xml")
kafka_home=$cache/servers/kafka-$kafka_version
# Half the CPU of a broker's life in a test goes into its first seconds: a cheap collector and compiler halve it.
quick_jvm='-Xmx512m -XX:+UseSerialGC -XX:TieredStopAtLevel=1'

# install_system_packages: apt-get when we may, else the list of what is missing.
install_system_packages() {
  local missing=()
  java_is_recent || missing+=("$(recent_java_package)")
  { kafka_is_installed && { ! $stores || [[ -d $hadoop_home/libs ]]; }; } || command -v mvn >/dev/null || missing+=(maven)
  { command -v cc && command -v make; } >/dev/null || missing+=(build-essential)
  command -v openssl >/dev/null || missing+=(openssl)
  command -v pkg-config >/dev/null || missing+=(pkg-config)
  pkg-config --exists openssl 2>/dev/null || missing+=(libssl-dev)
  pkg-config --exists zlib 2>/dev/null || missing+=(zlib1g-dev)
  if ((${#missing[@]})); then
    command -v apt-get >/dev/null || die "please install what these Debian packages hold: ${missing[*]}"
    ((EUID == 0)) || die "please run: sudo apt-get install ${missing[*]}"
    say "installing ${missing[*]}"
    apt-get -qq update >&2
    DEBIAN_FRONTEND=noninteractive apt-get -qq install --no-install-recommends "${missing[@]}" >&2
  fi
  ! $stores || [[ -x $versitygw ]] || command -v go >/dev/null ||
    die "go is missing, which builds the S3 server for tests: please install Go 1.25 or newer, see https://go.dev/dl"
  java_is_recent || die "the java in PATH is older than 17: please put a newer one first"
  command -v cargo >/dev/null ||
    die "cargo is missing: please install Rust $(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$checkout/Cargo.toml") or newer, see https://rustup.rs"
}

java_is_recent() {
  local version
  version=$(java -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p') && ((${version:-0} >= 17))
}

recent_java_package() {
  local package
  for package in openjdk-17-jre-headless openjdk-21-jre-headless; do
    apt-cache show "$package" >/dev/null 2>&1 && break
  done
  echo "$package"
}

# The folder appears by one rename, so it is complete when it is there.
kafka_is_installed() { [[ -d $kafka_home/libs ]]; }

# ensure_kafka: the jars, and an archive of loaded classes. Safe to call from many processes at once.
ensure_kafka() {
  kafka_is_installed && [[ -e $(class_archive) ]] && return
  local lock
  mkdir -p "$kafka_home"
  exec {lock}>"$kafka_home/.lock"
  flock "$lock"
  kafka_is_installed || step "install Kafka $kafka_version" fetch_jars
  [[ -e $(class_archive) ]] || step 'archive the classes that Kafka loads' archive_classes
  exec {lock}>&-
}

fetch_jars() {
  local partial=$kafka_home/libs.partial
  rm -rf "$partial"
  mvn -B -q -Dstyle.color=never -f "$kafka_sources/pom.xml" dependency:copy-dependencies -DoutputDirectory="$partial" >&2
  mv -T "$partial" "$kafka_home/libs"
}

# class_archive: its path. An archive fits one Java only; a JVM that finds another's ignores it.
class_archive() {
  local java
  java=$(readlink -f "$(command -v java)")
  echo "$kafka_home/classes-$(stat -c '%n %s %Y' "$java" | cksum | cut -d' ' -f1).jsa"
}

# archive_classes: runs a broker once and lets its JVM write down what it loaded. Later brokers map that file
# instead of parsing and verifying some 8,000 classes. Without it everything works, only slower: a failure leaves
# an empty file, so that it is not tried again.
archive_classes() {
  local dir archive
  dir=$(mktemp -d "$kafka_home/archiving.XXXXXX")
  archive=$(class_archive)
  if KAFKA_JVM_OPTS="$quick_jvm -XX:ArchiveClassesAtExit=$dir/classes.jsa" \
    "$checkout/scripts/servers" up --no-archive --sasl --dir "$dir/kafka" >/dev/null; then
    stop_seconds=60 "$checkout/scripts/servers" down --dir "$dir/kafka"
  fi
  [[ -s $dir/classes.jsa ]] || { say 'no archive was written: brokers will start slowly' && : >"$dir/classes.jsa"; }
  mv "$dir/classes.jsa" "$archive"
  "$checkout/scripts/servers" down --dir "$dir/kafka" --purge
  rm -rf "$dir"
}

# kafka_java CLASS ARGUMENT...: becomes one of Kafka's programs.
kafka_java() {
  local options
  mapfile -t options < <(java_options "$quick_jvm")
  exec java "${options[@]}" "$@"
}

# java_options JVM_OPTIONS: what comes before the class, an option a line.
java_options() {
  local archive
  tr -s ' ' '\n' <<<"$1"
  archive=$(class_archive)
  [[ -n ${no_archive:-} || ! -s $archive ]] || printf '%s\n' "-XX:SharedArchiveFile=$archive"
  printf '%s\n' "-Dlog4j2.configurationFile=$kafka_sources/log4j2.properties" \
    -cp "$(printf '%s:' "$kafka_home"/libs/*.jar)"
}

# formatted TRANSACTION_VERSION SCRAM: a folder with the bootstrap.checkpoint that a new node starts from. It is the
# same for all clusters with these features and users, so that the JVM which writes it runs once and not per cluster.
formatted() {
  local folder=$kafka_home/formatted-$1$([[ $2 == false ]] || echo -users) partial user options=()
  if [[ ! -d $folder ]]; then
    partial=$(mktemp -d "$kafka_home/formatting.XXXXXX")
    if $2; then
      for user in alice admin; do
        options+=(--add-scram "SCRAM-SHA-256=[name=$user,password=$user-secret]")
        options+=(--add-scram "SCRAM-SHA-512=[name=$user,password=$user-secret]")
      done
    fi
    printf '%s\n' process.roles=broker,controller node.id=1 controller.quorum.voters=1@127.0.0.1:1 \
      listeners=PLAINTEXT://127.0.0.1:2,CONTROLLER://127.0.0.1:1 controller.listener.names=CONTROLLER \
      "log.dirs=$partial/data" >"$partial/server.properties"
    (kafka_java kafka.tools.StorageTool format -t "$(new_id)" -c "$partial/server.properties" \
      --feature "transaction.version=$1" "${options[@]}") >"$partial/log" 2>&1 ||
      { cat "$partial/log" >&2 && die 'formatting failed'; }
    # Whoever comes second finds a folder that is equal to its own.
    mv -T "$partial/data" "$folder" 2>/dev/null || [[ -d $folder ]]
    rm -rf "$partial"
  fi
  echo "$folder"
}

# new_id: 16 random bytes as Kafka writes ids.
new_id() { head -c16 /dev/urandom | basenc --base64url | tr -d =; }
