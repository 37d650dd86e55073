# shellcheck shell=bash
# Prometheus and promtool, which the tests of the metrics need. Sourced by scripts/servers.

# ensure_prometheus: Debian's package when we may, without starting its service, else a word on what is missing.
ensure_prometheus() {
  command -v promtool >/dev/null && command -v prometheus >/dev/null && return
  command -v apt-get >/dev/null || die 'please install prometheus and promtool'
  ((EUID == 0)) || die 'please run: sudo apt-get install prometheus'
  step 'install Prometheus' install_prometheus
}

install_prometheus() {
  local policy=/usr/sbin/policy-rc.d ours=false status=0
  if [[ ! -e $policy ]]; then
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod +x "$policy"
    ours=true
  fi
  { apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install --no-install-recommends prometheus; } >&2 || status=$?
  if $ours; then rm "$policy"; fi
  return "$status"
}
