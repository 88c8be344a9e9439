"""What other libraries call our settings and options: hints for the command line, Python, TOML and study files."""

# Our names, the best first, and what else people write for them. A hint names the first that is valid where it was
# written: `--steps` is `--max-env-steps` of `neol train`, but `--max-steps` of `neol evaluate`.
_OTHER_NAMES: dict[tuple[str, ...], str] = {
    ("lr",): "learning_rate alpha eta plasticity_rate learn_rate",
    ("learning_rate",): "lr",  # of a baseline
    ("jobs",): "workers",  # of a study
    ("rule",): "plasticity plasticity_rule learning_rule update_rule",
    ("pop_size",): "population popsize population_size pop n_pop num_genomes genomes individuals",
    ("generations",): "epochs n_epochs iterations iters n_generations gens ngen max_generations num_generations",
    ("max_env_steps", "max_steps"): "timesteps steps total_timesteps env_steps n_steps num_steps total_steps budget "
    "max_timesteps frames num_timesteps",
    ("max_steps",): "horizon max_episode_steps episode_length max_episode_length time_limit t_max",
    ("episodes",): "episodes_per_genome n_episodes num_episodes rollouts eval_episodes n_eval_episodes runs",
    ("workers", "jobs", "threads"): "num_workers n_workers n_jobs processes num_processes cpus num_cpus n_cpus nproc "
    "parallel n_envs num_envs cores jobs",
    ("task",): "env environment env_id env_name game gym domain",
    ("env_kwargs",): "env_args env_params env_config kwargs",
    ("out",): "output dir directory log_dir logdir save_dir folder output_dir outdir out_dir save_path save logs",
    ("quiet", "progress"): "verbose verbosity silent v q no_progress",
    ("resume",): "continue restart load checkpoint",
    ("overwrite",): "force f clobber",
    ("film",): "video record render gif",
    ("json",): "as_json output_format",
    ("seed",): "random_seed random_state rng_seed",
    ("fitness_target",): "target target_fitness fitness_threshold reward_threshold solved stop_at",
    ("normalize_observations",): "normalize norm_obs normalize_obs obs_norm vec_normalize normalise",
    ("feed_forward",): "recurrent rnn recurrence feedforward",
    ("num_hidden",): "hidden n_hidden hidden_nodes hidden_units hidden_size",
    ("encoding",): "hyperneat cppn indirect genotype",
    ("inheritance",): "lamarckian darwinian lamarck",
    ("activation_default",): "activation activation_function nonlinearity",
    ("weight_mutate_power",): "sigma mutation_power mutation_std noise_std",
    ("weight_mutate_rate",): "mutation_rate mutate_rate mutation_probability",
    ("crossover_prob",): "crossover crossover_rate cxpb",
    ("trace_decay",): "lambda lam lambda_ trace eligibility_decay",
    ("weight_limit",): "clip weight_clip max_weight w_max",
    ("engine",): "simulator backend",
    ("executor",): "cluster ray distributed",
    ("tensorboard",): "tensorboard_log tb",
    ("hyperparameters",): "hyperparams params policy_kwargs",
    ("plasticity",): "learning learn",
    ("workers", "threads"): "gpu device cuda",
}
SYNONYMS: dict[str, tuple[str, ...]] = {word: ours for ours, words in _OTHER_NAMES.items() for word in words.split()}
_CPU, _QUIET = "NEOL runs on the CPU; ", "progress is shown unless you ask for none; "
# What is said before such a hint.
NOTES: dict[str, str] = {
    **dict.fromkeys(("gpu", "device", "cuda"), _CPU),
    **dict.fromkeys(("verbose", "verbosity", "v"), _QUIET),
    **dict.fromkeys(("recurrent", "rnn", "recurrence"), "networks are recurrent where feed_forward is false; "),
}
