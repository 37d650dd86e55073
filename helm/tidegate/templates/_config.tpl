{{/* tidegate.toml: a section for each map, a line for each value. JSON's scalars and quoted names are TOML's, too. */}}
{{- define "tidegate.toml" -}}
{{- $config := deepCopy .Values.config -}}
{{- if .Values.kafkaSecret.name -}}
{{- $_ := set $config.kafka "client_properties" (printf "/etc/tidegate/kafka/%s" .Values.kafkaSecret.key) -}}
{{- end -}}
{{- range $section, $settings := $config }}
{{- include "tidegate.section" (dict "path" $section "settings" $settings) }}
{{- end }}
{{- end -}}

{{- define "tidegate.section" -}}
{{- $path := .path }}
[{{ $path }}]
{{- range $key, $value := .settings }}
{{- if not (or (kindIs "map" $value) (kindIs "invalid" $value)) }}
{{ toJson $key }} = {{ toJson $value }}
{{- end }}
{{- end }}
{{ range $key, $value := .settings }}
{{- if kindIs "map" $value }}
{{- include "tidegate.section" (dict "path" (printf "%s.%s" $path $key) "settings" $value) }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Where checkpoints are, "" if nobody said. */}}
{{- define "tidegate.storage" -}}
{{- .Values.config.checkpoint.storage -}}
{{- end -}}

{{/* "true" if checkpoints or savepoints are on the volume. */}}
{{- define "tidegate.onVolume" -}}
{{- range list (include "tidegate.storage" .) (dig "savepoint" "folder" "" .Values.config) -}}
{{- if regexMatch "^(file:|/)" . -}}true{{- end -}}
{{- end -}}
{{- end -}}

{{/* The whole seconds, rounded up, of a duration such as 250ms, 90s or 1h 30min; the schema knows the same units. */}}
{{- define "tidegate.seconds" -}}
{{- $units := dict "ms" 1 "s" 1000 "m" 60000 "min" 60000 "h" 3600000 "d" 86400000 -}}
{{- $total := 0 -}}
{{- range regexFindAll "[0-9]+ *[a-z]+" . -1 -}}
{{- $total = add $total (mul (regexFind "[0-9]+" . | int64) (get $units (regexFind "[a-z]+" .))) -}}
{{- end -}}
{{- div (add $total 999) 1000 -}}
{{- end -}}

{{/* How long a stop may take: the last checkpoint, its commits, and what comes after. */}}
{{- define "tidegate.stopSeconds" -}}
{{- add (include "tidegate.seconds" (default "60s" .Values.config.checkpoint.timeout) | int64) 30 -}}
{{- end -}}
