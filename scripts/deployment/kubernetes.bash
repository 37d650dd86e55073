# shellcheck shell=bash
# Kubernetes' control plane for tests: etcd, an API server, and the controller of StatefulSets. There is no scheduler and
# no node: a test plays them. Sourced by scripts/servers, which sets `dir`. Expects `cache` and `checkout` from steps.bash.

kubernetes_version=1.37.2
kubernetes=$cache/servers/kubernetes-$kubernetes_version
operator_version=0.85.0
# The definition of PodMonitors, which a cluster has from the Prometheus operator.
podmonitors=$cache/servers/podmonitors-$operator_version.yaml

ensure_kubernetes() {
  [[ -x $kubernetes && -f $podmonitors ]] && return
  command -v go >/dev/null || die "go is missing, which builds Kubernetes: please install Go 1.26 or newer, see https://go.dev/dl"
  [[ -x $kubernetes ]] || step "build Kubernetes $kubernetes_version, which takes a quarter of an hour" build_kubernetes
  [[ -f $podmonitors ]] || step "fetch the definition of PodMonitors" fetch_podmonitors
}

# build_kubernetes: its libraries are released as v0.x beside it, and only the program itself says so.
build_kubernetes() {
  local partial source module
  mkdir -p "${kubernetes%/*}"
  partial=$(mktemp -d "$kubernetes.partial.XXXXXX")
  cp "$checkout/scripts/deployment/kubernetes/main.go" "$partial"
  (
    cd "$partial"
    source=$(go mod download -json "k8s.io/kubernetes@v$kubernetes_version" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
    go mod init kubernetes
    go mod edit -go="$(sed -n 's/^go //p' "$source/go.mod")" -require="k8s.io/kubernetes@v$kubernetes_version"
    while read -r module; do
      go mod edit -replace="$module=$module@v0.${kubernetes_version#1.}"
    done < <(sed -nE 's#^\s*(k8s.io/[a-z-]+) => ./staging.*#\1#p' "$source/go.mod")
    cat "$source/go.sum" >go.sum
    go mod tidy
    go build -trimpath -o kubernetes -ldflags="-s -w -X k8s.io/component-base/version.gitVersion=v$kubernetes_version \
      -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=$(cut -d. -f2 <<<"$kubernetes_version")" .
  ) >&2
  mv "$partial/kubernetes" "$kubernetes"
  rm -rf "$partial"
}

fetch_podmonitors() {
  local source
  source=$(go mod download -json "github.com/prometheus-operator/prometheus-operator@v$operator_version" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
  cp "$source/example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml" "$podmonitors.partial"
  chmod u+w "$podmonitors.partial"
  mv "$podmonitors.partial" "$podmonitors"
}

# kubernetes_up: prints lines NAME=VALUE, also in $dir/env. The program is linked into $dir: by that its processes are
# known, also to the end of a run.
kubernetes_up() {
  local ports
  [[ ! -f $dir/env ]] || die "$dir already holds a Kubernetes: scripts/servers kubernetes down --dir $dir"
  mkdir -p "$dir"
  cp --link "$kubernetes" "$dir/kubernetes" 2>/dev/null || cp "$kubernetes" "$dir/kubernetes"
  mapfile -t ports < <(free_ports 3)
  trap 'kubernetes_down' EXIT
  openssl genrsa -out "$dir/accounts.key" 2048 2>/dev/null
  echo 'token,admin,1,system:masters' >"$dir/tokens"
  cat >"$dir/kubeconfig" <<CONFIG
apiVersion: v1
kind: Config
clusters: [{name: test, cluster: {server: 'https://127.0.0.1:${ports[2]}', insecure-skip-tls-verify: true}}]
users: [{name: admin, user: {token: token}}]
contexts: [{name: test, context: {cluster: test, user: admin}}]
current-context: test
CONFIG
  launch_kubernetes etcd --data-dir "$dir/etcd" --log-level warn --initial-cluster "default=http://127.0.0.1:${ports[1]}" \
    --listen-client-urls "http://127.0.0.1:${ports[0]}" --advertise-client-urls "http://127.0.0.1:${ports[0]}" \
    --listen-peer-urls "http://127.0.0.1:${ports[1]}" --initial-advertise-peer-urls "http://127.0.0.1:${ports[1]}"
  launch_kubernetes kube-apiserver --etcd-servers "http://127.0.0.1:${ports[0]}" --cert-dir "$dir/certificates" \
    --bind-address 127.0.0.1 --advertise-address 127.0.0.1 --secure-port "${ports[2]}" --service-cluster-ip-range 10.0.0.0/24 \
    --service-account-issuer https://kubernetes.default.svc --service-account-key-file "$dir/accounts.key" \
    --service-account-signing-key-file "$dir/accounts.key" --token-auth-file "$dir/tokens" --authorization-mode RBAC \
    --endpoint-reconciler-type none
  await_kubernetes
  launch_kubernetes kube-controller-manager --kubeconfig "$dir/kubeconfig" --controllers statefulset-controller \
    --leader-elect=false --bind-address 127.0.0.1 --secure-port 0
  printf '%s\n' "kubeconfig=$dir/kubeconfig" "kubectl=$dir/kubernetes" "podmonitors=$podmonitors" >"$dir/env"
  trap - EXIT
  cat "$dir/env"
}

# launch_kubernetes NAME ARGUMENT...: starts it and does not wait.
launch_kubernetes() {
  detach "$dir" "$dir/$1.log" "$dir/kubernetes" "$@"
}

await_kubernetes() {
  local deadline=$((SECONDS + ready_seconds))
  until [[ $("$dir/kubernetes" kubectl --kubeconfig "$dir/kubeconfig" get --raw /readyz 2>/dev/null) == ok ]]; do
    ((SECONDS < deadline)) || { tail -n 25 "$dir"/*.log >&2 && die "Kubernetes is not ready in time, see $dir/*.log"; }
    sleep 0.5
  done
}

kubernetes_down() {
  local running
  while true; do
    mapfile -t running < <(find /proc/[0-9]*/exe -maxdepth 0 -lname "$dir/kubernetes" 2>/dev/null | cut -d/ -f3)
    ((${#running[@]})) || break
    kill -KILL "${running[@]}" 2>/dev/null || true
    sleep 0.1
  done
  rm -rf "$dir/etcd" "$dir/certificates" "$dir/env" "$dir/kubernetes"
  release_ports
}
