# shellcheck shell=bash
# What it takes to build and run a container where no image registry can be reached. Sourced by scripts/image and
# scripts/servers. Expects `cache` from steps.bash.

debian_release=bookworm
runtime_base=localhost/tidegate-base/debian:$debian_release
builder_base=localhost/tidegate-base/rust:$debian_release
# Without user namespaces and network of their own, builds also work where there are none to be had.
isolation=(--isolation chroot --network host)

# ensure_container_tools: Debian's packages when we may, else a word on what is missing.
ensure_container_tools() {
  local tool missing=()
  for tool in buildah podman runc debootstrap; do
    command -v "$tool" >/dev/null || missing+=("$tool")
  done
  ((${#missing[@]})) || return 0
  command -v apt-get >/dev/null || die "please install ${missing[*]}"
  ((EUID == 0)) || die "please run: sudo apt-get install ${missing[*]}"
  step "install ${missing[*]}" install_container_tools "${missing[@]}"
}

install_container_tools() {
  apt-get -qq update >&2
  DEBIAN_FRONTEND=noninteractive apt-get -qq install --no-install-recommends "$@" >&2
}

# ensure_runtime_base: an image with Debian's essential packages and apt, as the public one.
ensure_runtime_base() {
  buildah inspect --type image "$runtime_base" >/dev/null 2>&1 && return
  ((EUID == 0)) || die 'a base image can be made by root only'
  step "make $runtime_base" make_runtime_base
}

make_runtime_base() {
  local tree=$cache/servers/debian-$debian_release container
  if [[ ! -d $tree ]]; then
    rm -rf "$tree.partial"
    mkdir -p "${tree%/*}"
    debootstrap --variant=minbase "$debian_release" "$tree.partial" >&2
    rm -rf "$tree.partial"/var/cache/apt/* "$tree.partial"/var/lib/apt/lists/* \
      "$tree.partial"/usr/share/{doc,info,locale,man}/*
    mv -T "$tree.partial" "$tree"
  fi
  container=$(buildah from "${isolation[@]:2}" scratch)
  buildah copy --quiet "$container" "$tree" / >/dev/null
  buildah config --cmd bash --env PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$container"
  buildah commit --quiet --rm "$container" "$runtime_base" >/dev/null
}

# ensure_builder_base: the same with this machine's Rust, and its trust in certificates, for a full build.
ensure_builder_base() {
  local rust
  rust=$(rustc --version)
  [[ $(buildah inspect --type image --format '{{index .OCIv1.Config.Labels "rust"}}' "$builder_base" 2>/dev/null) != "$rust" ]] || return 0
  step "make $builder_base" make_builder_base "$rust"
}

make_builder_base() {
  local container tree
  tree=$(rustc --print sysroot)
  container=$(buildah from "${isolation[@]:2}" --pull-never "$runtime_base")
  buildah copy --quiet "$container" "$tree/bin" /usr/local/bin >/dev/null
  buildah copy --quiet "$container" "$tree/lib" /usr/local/lib >/dev/null
  buildah copy --quiet "$container" /etc/ssl/certs/ca-certificates.crt /usr/local/lib/certificates >/dev/null
  buildah config --label "rust=$1" --env CARGO_HOME=/usr/local/cargo --env CARGO_HTTP_CAINFO=/usr/local/lib/certificates "$container"
  buildah commit --quiet --rm "$container" "$builder_base" >/dev/null
}
