# shellcheck shell=bash
# What looks at chart and compose file: helm, Kubernetes' schemas, and the loader behind `docker compose config`. Sourced
# by scripts/servers and run.bash. Expects `cache` from steps.bash. HELM, COMPOSE_LOADER and KUBERNETES_SCHEMAS name
# them for the tests; what the user has set is not installed.

helm_version=3.22.0
compose_version=2.16.2
schemas_version=1.37.0
export HELM=${HELM:-$cache/servers/helm-$helm_version}
export COMPOSE_LOADER=${COMPOSE_LOADER:-$cache/servers/compose-go-$compose_version}
export KUBERNETES_SCHEMAS=${KUBERNETES_SCHEMAS:-$cache/servers/kubernetes-validate-$schemas_version}

# ensure_deployment_tools: each appears by one rename, so it is complete when it is there.
ensure_deployment_tools() {
  [[ -x $HELM ]] || step "build helm $helm_version" build_with_go helm.sh/helm/v3/cmd/helm "$helm_version" "$HELM"
  [[ -x $COMPOSE_LOADER ]] ||
    step "build compose-go $compose_version" build_with_go github.com/compose-spec/compose-go/v2/cmd "$compose_version" "$COMPOSE_LOADER"
  [[ -d $KUBERNETES_SCHEMAS ]] || step "install Kubernetes' schemas $schemas_version" fetch_schemas
}

# build_with_go PACKAGE VERSION PROGRAM
build_with_go() {
  command -v go >/dev/null || die "go is missing, which builds $3: please install Go 1.25 or newer, see https://go.dev/dl"
  local partial
  mkdir -p "${3%/*}"
  partial=$(mktemp -d "$3.partial.XXXXXX")
  GOBIN=$partial go install "$1@v$2" >&2
  mv "$partial/${1##*/}" "$3"
  rm -rf "$partial"
}

fetch_schemas() {
  python3 -m pip --version >/dev/null 2>&1 || die 'please install Python 3 with pip, which brings the schemas'
  local partial
  mkdir -p "${KUBERNETES_SCHEMAS%/*}"
  partial=$(mktemp -d "$KUBERNETES_SCHEMAS.partial.XXXXXX")
  python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --target "$partial" \
    "kubernetes-validate==$schemas_version" >&2
  mv -T "$partial" "$KUBERNETES_SCHEMAS" 2>/dev/null || rm -rf "$partial"
}
