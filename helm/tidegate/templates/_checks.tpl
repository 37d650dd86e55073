{{/* What the schema cannot tell, all at once and in words. */}}
{{- define "tidegate.check" -}}
{{- $problems := list -}}
{{- $config := .Values.config -}}
{{- range list "kafka.bootstrap" "job.name" "source.topic" "sink.topic" "checkpoint.storage" -}}
{{- $path := splitList "." . -}}
{{- if not (dig (first $path) (last $path) "" $config) -}}
{{- $problems = append $problems (printf "config.%s must be given" .) -}}
{{- end -}}
{{- end -}}
{{- $storage := include "tidegate.storage" . -}}
{{- if hasPrefix "memory:" $storage -}}
{{- $problems = append $problems (printf "config.checkpoint.storage %s would be gone with the pod: use s3://…, hdfs://…, or file:///var/lib/tidegate on the volume" $storage) -}}
{{- end -}}
{{- range list "checkpoint.storage" "savepoint.folder" "savepoint.from" -}}
{{- $path := splitList "." . -}}
{{- $place := dig (first $path) (last $path) "" $config -}}
{{- if and (regexMatch "^(file:|/)" $place) (not (regexMatch "^(file://)?/var/lib/tidegate(/|$)" $place)) -}}
{{- $problems = append $problems (printf "config.%s %s is not on the volume: it must be file:///var/lib/tidegate or below" . $place) -}}
{{- end -}}
{{- end -}}
{{- $cache := dig "checkpoint" "local_recovery" "" $config -}}
{{- if and $cache (not (regexMatch "^/var/cache/tidegate(/|$)" $cache)) -}}
{{- $problems = append $problems (printf "config.checkpoint.local_recovery %s cannot be written to: it must be /var/cache/tidegate or below" $cache) -}}
{{- end -}}
{{- if dig "job" "fresh" false $config -}}
{{- $problems = append $problems "config.job.fresh would drop the job's state at each restart of its container: give the job a new name, or run the image once with --fresh" -}}
{{- end -}}
{{- if dig "source" "until_end" false $config -}}
{{- $problems = append $problems "config.source.until_end is for jobs that end, and Kubernetes would start this one again and again: run the image as a Job of your own" -}}
{{- end -}}
{{- range $name, $_ := $config.kafka.properties -}}
{{- if regexMatch "(?i)password|secret|jaas|key\\.pem" $name -}}
{{- $problems = append $problems (printf "config.kafka.properties.%s is a secret, and config becomes a ConfigMap: put it into an existing Secret and name that in kafkaSecret.name" $name) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.kafkaSecret.name $config.kafka.client_properties -}}
{{- $problems = append $problems "kafkaSecret.name and config.kafka.client_properties both name a file of properties: give one of them" -}}
{{- end -}}
{{- $grace := .Values.terminationGracePeriodSeconds -}}
{{- $stop := include "tidegate.stopSeconds" . | int64 -}}
{{- if and (not (kindIs "invalid" $grace)) (lt (int64 $grace) $stop) -}}
{{- $problems = append $problems (printf "terminationGracePeriodSeconds %d is too short for a stop with a checkpoint: config.checkpoint.timeout and 30 s are %d" (int64 $grace) $stop) -}}
{{- end -}}
{{- if $problems -}}
{{- fail (printf "\n- %s" (join "\n- " $problems)) -}}
{{- end -}}
{{- end -}}
