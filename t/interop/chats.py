# SPDX-License-Identifier: MIT
"""Chat templates in the form of those that models have, and control tokens.

Each is (template, control tokens); what it writes is what Jinja makes of it.
"""
import jinja2

SYSTEM_FIRST = """{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content'] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{{- bos_token }}
"""
IM = ["<|im_start|>", "<|im_end|>"]
MESSAGES = ("{% for message in messages %}{{'<|im_start|>' + message['role'] + "
            "'\\n' + message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}")


def answer(text):
    return "{% if add_generation_prompt %}{{ '" + text + "' }}{% endif %}"


def mistral(open_text, close, tools=""):
    """One of the Mistral family with [INST]."""
    return SYSTEM_FIRST + """{%- for message in loop_messages %}
    {%- if tools is defined %}{{- "TOOLS" }}{%- endif %}
    {%- if loop.last and system_message is defined %}
        {{- OPEN + system_message + "\\n\\n" + message["content"] + CLOSE }}
    {%- else %}
        {{- OPEN + message["content"] + CLOSE }}
    {%- endif %}
{%- endfor %}""".replace("TOOLS", tools).replace("OPEN", open_text).replace(
        "CLOSE", close)


CHATS = {
    "chatml": (MESSAGES + answer("<|im_start|>assistant\\n"), IM),
    "smollm2": ("""{% for message in messages %}{% if loop.first and
messages[0]['role'] != 'system' %}{{ '<|im_start|>system\\nYou are SmolLM.
A model.<|im_end|>\\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\\n' +
message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}""" +
                answer("<|im_start|>assistant\\n"), IM),
    "qwen2.5": ("""{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0]['role'] == 'system' %}
        {{- messages[0]['content'] }}
    {%- endif %}
    {{- "# Tools<|im_end|>\\n" }}
{%- else %}
    {%- if messages[0]['role'] == 'system' %}
        {{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}
    {%- else %}
        {{- '<|im_start|>system\\nYou are Qwen. You help.<|im_end|>\\n' }}
    {%- endif %}
{%- endif %}
{%- for message in messages %}
    {%- if message.role != "system" %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content +
            '<|im_end|>' + '\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
""", IM),
    "llama2": ("""{% if messages[0]['role'] == 'system' %}{% set loop_messages =
messages[1:] %}{% set system_message = messages[0]['content'] %}{% else %}{% set
loop_messages = messages %}{% set system_message = false %}{% endif %}{% for
message in loop_messages %}{% if loop.index0 == 0 and system_message != false %}
{%- set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' +
message['content'] %}{% else %}{% set content = message['content'] %}{% endif %}
{{- bos_token + '[INST] ' + content.strip() + ' [/INST]' }}{% endfor %}""", []),
    "llama3": ("""{% for message in messages %}{% set content =
'<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' +
message['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}{% set
content = bos_token + content %}{% endif %}{{ content }}{% endfor %}""" +
               answer("<|start_header_id|>assistant<|end_header_id|>\\n\\n"),
               ["<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]),
    "mistral-v1": (mistral("' [INST] '", "' [/INST]'"), []),
    "mistral-v3": (mistral('"[INST] "', '"[/INST]"', "[AVAILABLE_TOOLS] "),
                   ["[INST]", "[/INST]"]),
    "mistral-v3-tekken": (mistral('"[INST]"', '"[/INST]"',
                                  "[AVAILABLE_TOOLS]"),
                          ["[INST]", "[/INST]"]),
    "gemma": ("""{{ bos_token }}{%- if messages[0]['role'] == 'system' -%}
    {%- set first_user_prefix = messages[0]['content'] + '\\n\\n' -%}
    {%- set loop_messages = messages[1:] -%}
{%- else -%}
    {%- set first_user_prefix = '' -%}
    {%- set loop_messages = messages -%}
{%- endif -%}
{%- for message in loop_messages -%}
    {{ '<start_of_turn>' + message['role'] + '\\n' + (first_user_prefix if
        loop.first else '') }}
    {{- message['content'] | trim }}
    {{- '<end_of_turn>\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{'<start_of_turn>model\\n'}}
{%- endif -%}""", ["<start_of_turn>", "<end_of_turn>"]),
}
for name, space in ("mistral-v7", " "), ("mistral-v7-tekken", ""):
    CHATS[name] = ("""{{- bos_token }}
{%- for message in messages %}
    {%- if message['role'] == 'user' %}
        {{- '[INST]SPACE' + message['content'] + '[/INST]' }}
    {%- elif message['role'] == 'system' %}
        {{- '[SYSTEM_PROMPT]SPACE' + message['content'] + '[/SYSTEM_PROMPT]' }}
    {%- endif %}
{%- endfor %}""".replace("SPACE", space),
                   ["[INST]", "[/INST]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"])

# (template, a part of the sentence)
REFUSED = [
    ("<|im_start|>user<|im_sep|>", "Phi-4"),
    ("<|user|>\\n<|end|>\\n<|assistant|>", "Phi-3"),
    ("<|user|>\\n</s>\\n<|assistant|>", "Zephyr"),
    ("{{ 'USER: ' }}{{ 'ASSISTANT: ' }}", "Vicuna"),
    ("<\uff5cUser\uff5c>", "DeepSeek"),
    ("{{ messages }}", "the chat template is not supported"),
]


def render(template, system, user):
    """As transformers renders it, without BOS."""
    env = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
    messages = [{"role": "system", "content": system}] * (system is not None)
    messages.append({"role": "user", "content": user})
    return env.from_string(template).render(
        messages=messages, add_generation_prompt=True, bos_token="",
        eos_token="")
