# shellcheck shell=bash
# As much of Kafka's protocol as it takes to see that a broker works. A client in Java would cost a second of CPU.
# Sourced by scripts/servers. Bytes are hexadecimal text throughout.

# exchange PORT API VERSION BODY: sends one request to 127.0.0.1, prints what follows the correlation id.
# Fails when nobody answers within two seconds.
exchange() {
  local port=$1 frame bytes='' size i
  # Flexible versions end their header with a list of tagged fields; of ours, only DescribeTransactions has it.
  printf -v frame '%04x%04x00000001ffff%s%s' "$2" "$3" "$( (($2 == 65)) && echo 00)" "$4"
  printf -v frame '%08x%s' $((${#frame} / 2)) "$frame"
  for ((i = 0; i < ${#frame}; i += 2)); do bytes+="\\x${frame:i:2}"; done
  local connection
  { exec {connection}<>"/dev/tcp/127.0.0.1/$port"; } 2>/dev/null || return 1
  # shellcheck disable=SC2059 # The bytes are the format.
  printf "$bytes" >&"$connection"
  size=$(bytes_from "$connection" 4) && size=$(bytes_from "$connection" $((16#${size:-0})))
  exec {connection}>&-
  [[ ${size:0:8} == 00000001 ]] && printf '%s' "${size:8}"
}

# bytes_from DESCRIPTOR COUNT: od reads without buffering when it is given a count.
bytes_from() { timeout 2 od -An -v -tx1 "-N$2" <&"$1" | tr -d ' \n'; }

# text VALUE: a string as the older versions write it, with a length of two bytes.
text() {
  local i
  printf '%04x' ${#1}
  for ((i = 0; i < ${#1}; i++)); do printf '%02x' "'${1:i:1}"; done
}

# live_nodes PORT: the ids of the brokers that this one takes for alive, one a line (Metadata v1).
live_nodes() {
  local answer at=8 i count length
  answer=$(exchange "$1" 3 1 00000000) && [[ -n $answer ]] || return 1
  count=$((16#${answer:0:8}))
  for ((i = 0; i < count; i++)); do
    echo $((16#${answer:at:8}))
    length=$((16#${answer:at+8:4}))
    at=$((at + 8 + 4 + 2 * length + 8))
    length=$((16#${answer:at:4}))
    at=$((at + 4 + (length == 65535 ? 0 : 2 * length)))
  done
}

# coordinator PORT KIND KEY: the port of the coordinator; kind 0 is a group, 1 a transactional id
# (FindCoordinator v1). Asking is also what makes a broker create the internal topic.
coordinator() {
  local answer length
  answer=$(exchange "$1" 10 1 "$(text "$3")$(printf '%02x' "$2")") && [[ ${answer:8:4} == 0000 ]] || return 1
  length=$((16#${answer:12:4}))
  answer=${answer:16 + (length == 65535 ? 0 : 2 * length) + 8}
  length=$((16#${answer:0:4}))
  echo $((16#${answer:4+2*length:8}))
}

# group_works PORT KEY: does the group's coordinator answer a fetch of its offsets? (OffsetFetch v2)
group_works() {
  local port answer
  port=$(coordinator "$1" 0 "$2") && answer=$(exchange "$port" 9 2 "$(text "$2")ffffffff") && [[ $answer == 000000000000 ]]
}

# transactions_work PORT KEY: does the coordinator know that it does not know this id? (DescribeTransactions v0;
# 105 is TRANSACTIONAL_ID_NOT_FOUND, while a coordinator that still loads its partition says 14)
transactions_work() {
  local port id answer
  id=$(text "$2")
  printf -v id '02%02x%s00' $((${#2} + 1)) "${id:4}"
  port=$(coordinator "$1" 1 "$2") && answer=$(exchange "$port" 65 0 "$id") && [[ ${answer:10:6} == 020069 ]]
}

# coordinators_work PORT PARTITIONS: every partition of both internal topics. Java's hash of names that differ in
# their last character only is consecutive, so these keys fall into all of them.
coordinators_work() {
  local i
  for ((i = 0; i < $2; i++)); do
    transactions_work "$1" "ready-$i" && group_works "$1" "ready-$i" || return 1
  done
}
