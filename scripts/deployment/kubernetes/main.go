// One program for what the tests need of Kubernetes' control plane: it is the first argument.
package main

import (
	"fmt"
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	"k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "expected etcd, kube-apiserver, kube-controller-manager or kubectl")
		os.Exit(2)
	}
	name := os.Args[1]
	os.Args = os.Args[1:]
	switch name {
	case "etcd":
		etcdmain.Main(os.Args)
	case "kube-apiserver":
		os.Exit(cli.Run(apiserver.NewAPIServerCommand()))
	case "kube-controller-manager":
		os.Exit(cli.Run(controllers.NewControllerManagerCommand()))
	case "kubectl":
		os.Exit(cli.Run(cmd.NewDefaultKubectlCommand()))
	default:
		fmt.Fprintf(os.Stderr, "expected etcd, kube-apiserver, kube-controller-manager or kubectl, found %s\n", name)
		os.Exit(2)
	}
}
