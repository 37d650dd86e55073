# shellcheck shell=bash
# The stores that tests keep checkpoints in: a server that speaks S3, and HDFS, and how they get onto this machine.
# Sourced by scripts/servers. Expects `cache` and `checkout` from steps.bash.

stores_sources=$checkout/scripts/stores
versitygw_version=1.8.0
versitygw=$cache/servers/versitygw-$versitygw_version
hadoop_version=$(sed -n 's/.*<hadoop.version>\(.*\)<.*/\1/p' "$stores_sources/pom.xml")
hadoop_home=$cache/servers/hadoop-$hadoop_version

# ensure_versitygw, ensure_hadoop: each appears by one rename, so it is complete when it is there. Safe to call from
# many processes at once.
ensure_versitygw() {
  [[ -x $versitygw ]] || locked "$versitygw.lock" step "build versitygw $versitygw_version" build_versitygw
}

ensure_hadoop() {
  [[ -d $hadoop_home/libs ]] || locked "$hadoop_home.lock" step "install Hadoop $hadoop_version" fetch_hadoop
}

# locked FILE COMMAND...: one process at a time; who waited finds the work done.
locked() {
  local lock file=$1
  shift
  mkdir -p "${file%/*}"
  exec {lock}>"$file"
  flock "$lock"
  "$@"
  exec {lock}>&-
}

build_versitygw() {
  [[ ! -x $versitygw ]] || return 0
  local partial
  partial=$(mktemp -d "$versitygw.partial.XXXXXX")
  GOBIN=$partial GOFLAGS=-mod=mod go install "github.com/versity/versitygw/cmd/versitygw@v$versitygw_version" >&2
  mv "$partial/versitygw" "$versitygw"
  rm -rf "$partial"
}

fetch_hadoop() {
  [[ ! -d $hadoop_home/libs ]] || return 0
  local partial
  mkdir -p "$hadoop_home"
  partial=$(mktemp -d "$hadoop_home/partial.XXXXXX")
  mvn -B -q -Dstyle.color=never -f "$stores_sources/pom.xml" dependency:copy-dependencies \
    -DoutputDirectory="$partial/libs" >&2
  mv -T "$partial/libs" "$hadoop_home/libs"
  rm -rf "$partial"
}
